package daemon

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/hook/external"
	"github.com/toold-dev/toold/lifecycle/meter"
	"github.com/toold-dev/toold/metric"
)

// serveMetrics serves the metrics for Prometheus if an address is configured.
func (d *daemon) serveMetrics(ctx context.Context, loops *sync.WaitGroup) error {
	if d.cfg.Metrics.Listen == "" {
		return nil
	}
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", d.cfg.Metrics.Listen)
	if err != nil {
		return config.Errorf("metrics.listen: %w", err)
	}
	d.metricsAt = lis.Addr().String()
	srv := &http.Server{
		Handler: metricsPage{d}.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
	loops.Go(func() {
		if err := srv.Serve(lis); err != nil && ctx.Err() == nil {
			d.fail(fmt.Errorf("metrics: %w", err))
		}
	})
	loops.Go(func() {
		<-ctx.Done()
		_ = srv.Close() // No graceful shutdown is needed, because Prometheus will try again.
	})
	return nil
}

// A metricsPage writes the metrics of all parts of a daemon.
type metricsPage struct{ *daemon }

// ServeHTTP implements [http.Handler].
func (d metricsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", metric.ContentType)
	_, _ = io.WriteString(w, d.page(r.Context())) // a write fails only when the client is gone
}

// handler serves the metrics on a separate listener, without a credential.
func (d metricsPage) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", d)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.cfg.Metrics.Public && !localHost(r.Host) { // This protects against DNS rebinding: a web page could use a host name that resolves to this address, and read the metrics through the browser.
			http.Error(w, "wrong host", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// localHost reports whether a Host header names the loopback address of this machine.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// page returns the metrics in the text format of Prometheus. docs/reference/metrics.md describes each name.
func (d metricsPage) page(ctx context.Context) string {
	t := metric.NewText("toold_")
	d.ofTools(t)
	d.ofEngine(t)
	d.ofHooks(t)
	d.ofNotify(t)
	d.ofStore(ctx, t)
	d.ofServer(t)
	d.ofProcess(t)
	return t.String()
}

const nanoseconds = float64(time.Second) // nanoseconds in one second

// ofTools writes one series for each registered tool that was called, and one for all other names.
func (d metricsPage) ofTools(t *metric.Text) {
	stats := d.engine.Meters().Stats()
	tools := slices.Sorted(maps.Keys(stats))
	t.Counter("calls_total", "Calls that ended, by tool and outcome.")
	for _, id := range tools {
		for _, outcome := range slices.Sorted(maps.Keys(stats[id].Ended)) {
			t.Value("calls_total", float64(stats[id].Ended[outcome]), "tool", id, "outcome", string(outcome))
		}
	}
	count := func(name, help string, of func(meter.Stats) int64) {
		t.Counter(name, help)
		for _, id := range tools {
			t.Value(name, float64(of(stats[id])), "tool", id)
		}
	}
	count("questions_total", "Suspensions of calls.", func(s meter.Stats) int64 { return s.Suspended })
	count("kill_unverified_total", "Calls with processes whose end was not confirmed.", func(s meter.Stats) int64 { return s.KillUnverified })
	times := func(name, help string, of func(meter.Stats) metric.Snapshot) {
		t.Histogram(name, help)
		for _, id := range tools {
			if seen := of(stats[id]); seen.Count() > 0 {
				t.Observations(name, seen, nanoseconds, "tool", id)
			}
		}
	}
	times("call_seconds", "Time from accepted to ended, of calls without a suspension.", func(s meter.Stats) metric.Snapshot { return s.Call })
	times("attempt_seconds", "Time of the last attempt of a call, from intent to result.", func(s meter.Stats) metric.Snapshot { return s.Attempt })
}

// ofHooks writes one series for each external hook.
func (d metricsPage) ofHooks(t *metric.Text) {
	list := d.externals.Load().hooks()
	health := make([]external.Health, len(list))
	for i, o := range list {
		health[i] = o.hook.Health()
	}
	each := func(head func(name, help string), name, help string, of func(h *external.Health) float64) {
		head(name, help)
		for i, o := range list {
			t.Value(name, of(&health[i]), "hook", o.entry.Name)
		}
	}
	each(t.Counter, "hook_asked_total", "Questions to external hooks that ended.", func(h *external.Health) float64 { return float64(h.Asked) })
	each(t.Counter, "hook_failed_total", "Questions to external hooks that failed.", func(h *external.Health) float64 { return float64(h.Failed) })
	each(t.Gauge, "hook_running", "Questions to external hooks that run now.", func(h *external.Health) float64 { return float64(h.Running) })
	each(t.Gauge, "hook_waiting", "Questions to external hooks that wait for a slot.", func(h *external.Health) float64 { return float64(h.Waiting) })
	each(t.Gauge, "hook_failing", "1 when the newest question to an external hook failed.", func(h *external.Health) float64 {
		if h.Failing {
			return 1
		}
		return 0
	})
	t.Histogram("hook_seconds", "Time of a question to an external hook, from slot to answer.")
	for i, o := range list {
		t.Observations("hook_seconds", health[i].Times, nanoseconds, "hook", o.entry.Name)
	}
}

func (d metricsPage) ofEngine(t *metric.Text) {
	gauge, counter := singles(t)
	s := d.engine.Stats()
	gauge("calls_running", "Calls that run.", int64(s.Running))
	gauge("calls_queued", "Calls that wait for a slot.", int64(s.Queued))
	t.Gauge("circuit_open", "1 for each source whose circuit is open because its upstream failed.")
	for i, open := range s.OpenCircuits {
		if i == 0 || open.Source != s.OpenCircuits[i-1].Source { // one series for each source, not for each of its namespaces
			t.Value("circuit_open", 1, "source", open.Source)
		}
	}
	t.Gauge("stored_bytes", "Approximate bytes of the calls of a namespace in journal and output, when limited.")
	stored := d.engine.StorageUsage()
	for _, namespace := range slices.Sorted(maps.Keys(stored)) {
		t.Value("stored_bytes", float64(stored[namespace]), "namespace", namespace)
	}
	counter("queue_refused_total", "Calls that were refused because a queue was full.", s.QueueRefused)
	gauge("calls_live", "Calls that are in memory.", int64(s.Active))
	gauge("calls_unwritten", "Read-only calls with events that are not yet in the journal.", int64(s.Unwritten))
	gauge("watchers", "Watchers of calls, runs, threads and namespaces.", s.Watchers)
	counter("events_total", "Events that were published.", s.Events)
	counter("output_bytes_total", "Bytes that tools printed.", s.OutputBytes)
	counter("illegal_transitions_total", "Illegal transitions of calls that were refused.", s.IllegalTransitions)
	counter("late_reports_total", "Reports of tools that arrived after the end of the call.", s.LateReports)
	counter("abandoned_total", "Tools that ignored their cancellation.", s.Abandoned)
	counter("unowned_calls_total", "Unfinished calls that had no owner in the daemon. Each is a bug of toold.", s.Unowned)
	counter("gate_conflicts_total", "Verdicts that another gate overruled.", s.GateConflicts)
	counter("hook_failures_total", "Hooks that failed.", s.HookFailures)
	counter("log_lines_dropped_total", "Log lines of calls that were dropped.", int64(d.lines.Dropped()))
}

// actions lists the actions that have a series. Other actions, which tools may define, have none.
func actions() []string { return []string{"approval", "input", "auth", "frontend", "in_doubt"} }

// ofOutput writes one series for each namespace if its output is limited.
func (d metricsPage) ofOutput(t *metric.Text, output map[string]int64) {
	t.Gauge("output_stored_bytes", "Stored output of the calls of a namespace, when limited.")
	for _, namespace := range slices.Sorted(maps.Keys(output)) {
		t.Value("output_stored_bytes", float64(output[namespace]), "namespace", namespace)
	}
}

// ofStore writes the metrics of the store. It leaves out values that the journal cannot return at the moment.
func (d metricsPage) ofStore(ctx context.Context, t *metric.Text) {
	gauge, _ := singles(t)
	if counts, err := d.store.Counts(ctx); err == nil {
		t.Gauge("calls_stored", "Calls in the journal that have not ended, by status.")
		for _, status := range slices.Sorted(maps.Keys(counts)) {
			t.Value("calls_stored", float64(counts[status]), "status", string(status))
		}
	}
	if open, since, err := d.store.Waiting(ctx); err == nil {
		t.Gauge("questions_open", "Questions that wait for a decision, by action.")
		other := 0
		for action, n := range open {
			if !slices.Contains(actions(), action) {
				other += n
			}
		}
		for _, action := range actions() {
			t.Value("questions_open", float64(open[action]), "action", action)
		}
		t.Value("questions_open", float64(other), "action", "other")
		age := 0.0
		if since != 0 {
			age = max(d.store.Now().Sub(since).Seconds(), 0)
		}
		t.Gauge("oldest_question_seconds", "Age of the oldest open question.")
		t.Value("oldest_question_seconds", age)
	}
	if dead, err := d.store.DeadLetters(ctx); err == nil {
		t.Gauge("dead_letters", "Actions that failed permanently and wait for an operator.")
		for _, namespace := range slices.Sorted(maps.Keys(dead)) {
			t.Value("dead_letters", float64(dead[namespace]), "namespace", namespace)
		}
	}
	s := d.store.Stats()
	t.Histogram("journal_group_changes", "Changes in one transaction of the journal.")
	t.Observations("journal_group_changes", s.Groups, 1)
	t.Histogram("journal_sync_seconds", "Time of commits that waited for the disk.")
	t.Observations("journal_sync_seconds", s.Syncs, nanoseconds)
	t.Gauge("journal_waiting", "Changes that wait to be written, by lane.")
	t.Value("journal_waiting", float64(s.Waiting[0]), "lane", "durable")
	t.Value("journal_waiting", float64(s.Waiting[1]), "lane", "other")
	d.ofOutput(t, s.Output)
	if free, err := d.store.Free(); err == nil {
		gauge("disk_free_bytes", "Free space on the disk of the journal.", free)
	}
	full := int64(0)
	if d.store.Full() {
		full = 1
	}
	gauge("disk_full", "1 while new calls are refused because the disk is full.", full)
}

func (d metricsPage) ofServer(t *metric.Text) {
	stats := d.service.Stats()
	methods := slices.Sorted(maps.Keys(stats))
	t.Counter("requests_total", "Requests that ended, by method and gRPC code.")
	for _, method := range methods {
		for _, code := range slices.Sorted(maps.Keys(stats[method].Ended)) {
			t.Value("requests_total", float64(stats[method].Ended[code]), "method", method, "code", code.String())
		}
	}
	t.Gauge("requests_open", "Requests that have not ended, by method.")
	for _, method := range methods {
		t.Value("requests_open", float64(stats[method].Running), "method", method)
	}
}

func (d metricsPage) ofProcess(t *metric.Text) {
	gauge, _ := singles(t)
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	gauge("heap_bytes", "Memory of heap objects.", int64(samples[0].Value.Uint64()))
	gauge("goroutines", "Goroutines.", int64(runtime.NumGoroutine()))
	gauge("start_time_seconds", "When the daemon started, in seconds since 1970.", d.started.Unix())
	t.Gauge("info", "Always 1; its label is the version.")
	t.Value("info", 1, "version", d.version)
}

// singles returns functions that write a metric without labels.
func singles(t *metric.Text) (gauge, counter func(name, help string, v int64)) {
	write := func(head func(name, help string)) func(name, help string, v int64) {
		return func(name, help string, v int64) {
			head(name, help)
			t.Value(name, float64(v))
		}
	}
	return write(t.Gauge), write(t.Counter)
}
