package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// serveMetrics shows the numbers to Prometheus, when an address is configured.
func (d *daemon) serveMetrics(ctx context.Context, loops *sync.WaitGroup) error {
	if d.cfg.Metrics.Listen == "" {
		return nil
	}
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", d.cfg.Metrics.Listen)
	if err != nil {
		return usageError{fmt.Errorf("metrics.listen: %w", err)}
	}
	srv := &http.Server{
		Handler: d.metricsHandler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10,
	}
	loops.Go(func() {
		if err := srv.Serve(lis); err != nil && ctx.Err() == nil {
			d.fail(fmt.Errorf("metrics: %w", err))
		}
	})
	loops.Go(func() {
		<-ctx.Done()
		_ = srv.Close() // a reader of numbers comes again
	})
	return nil
}

func (d *daemon) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = io.WriteString(w, d.metrics(r.Context())) // who left does not need them
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) { // a page whose name was bound to this address anew must not read on
			http.Error(w, "wrong host", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// localHost reports whether a Host header names this machine's loopback.
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

// metrics writes what was counted in the text format of Prometheus.
func (d *daemon) metrics(ctx context.Context) string {
	var b strings.Builder
	metric := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP toold_%s %s\n# TYPE toold_%s %s\n", name, help, name, kind)
	}
	one := func(name, kind, help string, v int64) {
		metric(name, kind, help)
		fmt.Fprintf(&b, "toold_%s %d\n", name, v)
	}
	s := d.engine.Stats()
	one("calls_running", "gauge", "Calls that run.", int64(s.Running))
	one("calls_queued", "gauge", "Calls that wait for a place.", int64(s.Queued))
	one("calls_live", "gauge", "Calls that are in memory.", int64(s.Live))
	one("illegal_transitions_total", "counter", "Steps of calls that were refused.", s.IllegalTransitions)
	one("late_reports_total", "counter", "What tools said after their end.", s.LateReports)
	one("abandoned_total", "counter", "Tools that did not heed their cancellation.", s.Abandoned)
	one("gate_conflicts_total", "counter", "Verdicts that another gate overruled.", s.GateConflicts)
	one("hook_failures_total", "counter", "Hooks that failed.", s.HookFailures)
	one("log_lines_dropped_total", "counter", "Lines of calls that the log could not take.", int64(d.lines.Dropped()))
	if counts, err := d.store.Counts(ctx); err == nil {
		metric("calls_stored", "gauge", "Calls in the journal that have not ended, by status.")
		for _, status := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "toold_calls_stored{status=%q} %d\n", status, counts[status])
		}
	}
	stats := d.server.Stats()
	metric("requests_total", "counter", "Requests that ended, by method and gRPC code.")
	for _, method := range slices.Sorted(maps.Keys(stats)) {
		for _, code := range slices.Sorted(maps.Keys(stats[method].Ended)) {
			fmt.Fprintf(&b, "toold_requests_total{method=%q,code=%q} %d\n", method, code.String(), stats[method].Ended[code])
		}
	}
	metric("requests_open", "gauge", "Requests that have not ended, by method.")
	for _, method := range slices.Sorted(maps.Keys(stats)) {
		fmt.Fprintf(&b, "toold_requests_open{method=%q} %d\n", method, stats[method].Running)
	}
	return b.String()
}
