package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/tooltest"
	"github.com/toold-dev/toold/tools/worker"
	"github.com/toold-dev/toold/tools/worker/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRegistry is a Registry that stores all tools, except a tool named taken, which it refuses.
type fakeRegistry struct {
	mu        sync.Mutex
	tools     map[string]tool.Tool
	refreshed int
}

func (s *fakeRegistry) Register(_ string, tools ...tool.Tool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tools {
		if id := t.Descriptor().ID; id == "taken" {
			return fmt.Errorf("%w: %s", worker.ErrTaken, id)
		}
	}
	for _, t := range tools {
		s.tools[t.Descriptor().ID] = t
	}
	return nil
}

func (s *fakeRegistry) Replace(source string, tools ...tool.Tool) error {
	return s.Register(source, tools...)
}
func (s *fakeRegistry) Trusted(string, string) bool  { return true }
func (s *fakeRegistry) Shadowed(string, string) bool { return false }
func (s *fakeRegistry) Refresh()                     { s.mu.Lock(); s.refreshed++; s.mu.Unlock() }
func (s *fakeRegistry) get(id string) tool.Tool      { s.mu.Lock(); defer s.mu.Unlock(); return s.tools[id] }

func (s *fakeRegistry) refreshes() int { s.mu.Lock(); defer s.mu.Unlock(); return s.refreshed }

// memory is a Memory in a map.
type memory struct {
	mu    sync.Mutex
	known map[string]worker.Known
	key   []byte
}

func (m *memory) Keep(_ context.Context, k worker.Known) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[k.Offer.Descriptor.ID] = k
	return nil
}

func (m *memory) Forget(_ context.Context, _, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, id)
	return nil
}

func (m *memory) KeepKey(_ context.Context, key []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key = key
	return nil
}

func (m *memory) all() (all []worker.Known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.known {
		all = append(all, k)
	}
	return all
}

// line is a Line that records the messages to a worker.
type line struct {
	mu      sync.Mutex
	started []string // ids of the leases in the start messages that the worker received
	kinds   []string
	cancels []string
	lost    []string
	acks    []string
	inputs  []string
	pieces  []piece

	questions []asked
	ended     error
	reason    string
}

func (l *line) Start(lease, kind string, _ *tool.Call, _ []tool.Document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started, l.kinds = append(l.started, lease), append(l.kinds, kind)
}
func (l *line) Cancel(lease string, _ error) {
	l.mu.Lock()
	l.cancels = append(l.cancels, lease)
	l.mu.Unlock()
}
func (l *line) Ack(lease string)  { l.mu.Lock(); l.acks = append(l.acks, lease); l.mu.Unlock() }
func (l *line) Lost(lease string) { l.mu.Lock(); l.lost = append(l.lost, lease); l.mu.Unlock() }
func (l *line) Question(id, kind string, c *tool.Call, _ []tool.Document, within time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.questions = append(l.questions, asked{id, kind, c, within})
}
func (l *line) Input(_ string, position int64, data []byte, ended bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(data) > 0 {
		l.pieces = append(l.pieces, piece{position, slices.Clone(data)})
	}
	l.inputs = append(l.inputs, fmt.Sprintf("%d %q %t %v", position, data, ended, err))
}
func (l *line) End(reason string, why error) {
	l.mu.Lock()
	l.reason, l.ended = reason, why
	l.mu.Unlock()
}

func (l *line) why() error { l.mu.Lock(); defer l.mu.Unlock(); return l.ended }

func (l *line) leases() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.started)
}

// world is a hub in a synctest bubble.
type world struct {
	t        *testing.T
	registry *fakeRegistry
	hub      *worker.Hub
	calls    int
}

func inBubble(t *testing.T, cfg worker.Config, run func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, registry: &fakeRegistry{tools: map[string]tool.Tool{}}}
		cfg.Registry = w.registry
		hub, err := worker.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		w.hub = hub
		defer hub.Close()
		run(t, w)
	})
}

var alice = tool.Principal{Namespace: "default", Subject: "alice"}

func offer(ids ...string) link.Offer {
	o := link.Offer{Pool: "p"}
	for _, id := range ids {
		o.Tools = append(o.Tools, link.Tool{Descriptor: tool.Descriptor{ID: id}})
	}
	return o
}

// connect connects a worker and invokes ready, so that the worker gets work.
func (w *world) connect(o link.Offer) (*worker.Session, *line, link.Accepted) {
	w.t.Helper()
	l := &line{}
	s, a, ready, err := w.hub.Connect(alice, o, l)
	if err != nil {
		w.t.Fatal(err)
	}
	ready()
	w.t.Cleanup(func() { s.Close(false) })
	return s, l, a
}

type outcome struct {
	result *tool.Result
	err    error
}

// call executes a call of a tool in another goroutine.
func (w *world) call(ctx context.Context, id string, labels map[string]string) <-chan outcome {
	done := make(chan outcome, 1)
	t := w.registry.get(id)
	w.calls++
	c := &tool.Call{ID: fmt.Sprint("c", w.calls), Tool: id, Reporter: &tooltest.Recorder{}, Run: tool.Run{Labels: labels}}
	go func() {
		r, err := t.Execute(ctx, c)
		done <- outcome{r, err}
	}()
	return done
}

// The test checks that only the session that holds a lease can report on its work and finish it.
func TestT61OnlyTheHolderCounts(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		holder, l, _ := w.connect(offer("a"))
		thief, _, _ := w.connect(offer("b"))
		done := w.call(t.Context(), "a", nil)
		lease := l.leases()[0]
		if err := thief.Finish(lease, tool.Text("stolen"), nil); !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("the thief ended it: %v", err)
		}
		if _, err := thief.Reporter(lease); !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("the thief reports: %v", err)
		}
		// A worker with another subject knows the id of the lease and names it in its offer. It must not get the lease.
		o := offer("a")
		o.Held = []string{lease}
		mallory, a, _, err := w.hub.Connect(tool.Principal{Namespace: "default", Subject: "mallory"}, o, &line{})
		if err != nil || len(a.Kept) > 0 {
			t.Errorf("mallory keeps %v, %v", a.Kept, err)
		}
		mallory.Close(true)
		if err := holder.Finish(lease, tool.Text("done"), nil); err != nil {
			t.Error(err)
		}
		w.registry.get("a").(tool.Settler).Settled("", "c1", 0)
		if err := holder.Finish(lease, tool.Text("twice"), nil); !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("it ended twice: %v", err)
		}
		if out := <-done; out.err != nil || out.result.Message != "done" {
			t.Errorf("the call: %v", out)
		}
		if n := w.hub.Stats().Refused; n != 3 {
			t.Errorf("%d refusals counted", n)
		}
	})
}

func TestWorkersThatVanish(t *testing.T) {
	inBubble(t, worker.Config{Lease: 10 * time.Second}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		done := w.call(t.Context(), "a", nil)
		l.leases()
		time.Sleep(6 * time.Second)
		_ = s.Receive(func() error { return nil })
		time.Sleep(9 * time.Second)
		if w.hub.Stats().Leases != 1 {
			t.Error("a worker that sent a message lost its lease")
		}
		time.Sleep(2 * time.Second)
		if out := <-done; !errors.Is(out.err, tool.ErrLost) || !errors.Is(l.why(), worker.ErrSilent) {
			t.Errorf("silent for a lease: %v, ended with %v", out.err, l.why())
		}
	})
	inBubble(t, worker.Config{Lease: 10 * time.Second}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		done := w.call(t.Context(), "a", nil)
		lease := l.leases()[0]
		s.Close(false) // The connection broke.
		time.Sleep(9 * time.Second)
		o := offer("a")
		o.Held = []string{lease, "unknown"}
		back, _, a := w.connect(o)
		if !slices.Equal(a.Kept, []string{lease}) {
			t.Errorf("kept %v", a.Kept)
		}
		time.Sleep(5 * time.Second)
		if err := s.Finish(lease, tool.Text("from the grave"), nil); !errors.Is(err, worker.ErrNotHeld) {
			t.Errorf("the old connection ended it: %v", err)
		}
		if err := back.Finish(lease, tool.Text("done"), nil); err != nil {
			t.Error(err)
		}
		if out := <-done; out.err != nil {
			t.Error(out.err)
		}
	})
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		done := w.call(t.Context(), "a", nil)
		l.leases()
		start := time.Now()
		s.Close(true) // The worker left on purpose.
		if out := <-done; !errors.Is(out.err, tool.ErrLost) || time.Since(start) > 0 {
			t.Errorf("%v after %v", out.err, time.Since(start))
		}
	})
}

func TestCancelReachesWhoComesBack(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		s, l, _ := w.connect(offer("a"))
		ctx, cancel := context.WithCancel(t.Context())
		done := w.call(ctx, "a", nil)
		lease := l.leases()[0]
		s.Close(false)
		cancel()
		synctest.Wait()
		o := offer("a")
		o.Held = []string{lease}
		back, newLine, _ := w.connect(o)
		if !slices.Equal(newLine.cancels, []string{lease}) {
			t.Errorf("the worker was asked to cancel %v", newLine.cancels)
		}
		_ = back.Finish(lease, nil, context.Canceled)
		if out := <-done; !errors.Is(out.err, context.Canceled) {
			t.Error(out.err)
		}
	})
}

func TestSpreadOverWorkers(t *testing.T) {
	inBubble(t, worker.Config{Wait: time.Minute, Lease: time.Hour}, func(t *testing.T, w *world) {
		small, big := offer("a"), offer("a")
		small.Limit, big.Limit = 2, 6
		big.Labels = map[string]string{"gpu": "a100"}
		_, l1, _ := w.connect(small)
		s2, l2, _ := w.connect(big)
		for range 8 {
			w.call(t.Context(), "a", nil)
			synctest.Wait()
		}
		if a, b := len(l1.leases()), len(l2.leases()); a != 2 || b != 6 {
			t.Errorf("the small one has %d, the big one %d", a, b)
		}
		waits := w.call(t.Context(), "a", map[string]string{"worker.gpu": "a100"})
		other := w.call(t.Context(), "a", map[string]string{"worker.gpu": "none"})
		if n := w.hub.Stats().Waiting; n != 0 && len(l2.leases()) != 6 {
			t.Errorf("%d wait", n)
		}
		_ = s2.Finish(l2.leases()[0], tool.Text("room"), nil)
		if len(l2.leases()) != 7 {
			t.Error("what waited did not get the room")
		}
		_ = s2.Finish(l2.leases()[6], tool.Text("done"), nil)
		if out := <-waits; out.err != nil {
			t.Error(out.err)
		}
		out := <-other
		if e := tool.AsError(out.err); !errors.Is(out.err, tool.ErrNotRun) || e.Code != tool.Upstream || e.Reason != "NO_WORKER" {
			t.Errorf("nobody has the label: %v", out.err)
		}
		s2.Drain()
		waits = w.call(t.Context(), "a", map[string]string{"worker.gpu": "a100"})
		if out := <-waits; tool.AsError(out.err).Reason != "NO_WORKER" {
			t.Errorf("a worker that drains: %v", out.err)
		}
		waits = w.call(t.Context(), "a", nil)
		if out := <-waits; tool.AsError(out.err).Reason != "WORKERS_BUSY" {
			t.Errorf("all busy: %v", out.err)
		}
	})
}

func TestDefinitions(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		old, _, _ := w.connect(offer("a", "b"))
		next := offer("a", "b", "taken")
		next.Tools[0].Descriptor.Description = "another"
		next.Tools[1].Descriptor.RequiredSecrets = []string{"key"}
		_, l, a := w.connect(next)
		var reasons []string
		for _, r := range a.Refused {
			reasons = append(reasons, r.Tool+" "+r.Reason)
		}
		slices.Sort(reasons)
		if want := []string{"a " + link.OtherDefinition, "b " + link.Invalid, "taken " + link.Taken}; !slices.Equal(reasons, want) {
			t.Errorf("refused %v", reasons)
		}
		old.Close(true)
		if d := w.registry.get("a").Descriptor(); d.Description != "another" {
			t.Error("the definition that waited is not served")
		}
		w.call(t.Context(), "a", nil)
		if len(l.leases()) != 1 {
			t.Error("its worker gets no work")
		}
	})
	for name, change := range map[string]func(*link.Offer){
		"pool":   func(o *link.Offer) { o.Pool = "A b" },
		"limit":  func(o *link.Offer) { o.Limit = 1 << 20 },
		"tools":  func(o *link.Offer) { o.Tools = nil },
		"twice":  func(o *link.Offer) { o.Tools = append(o.Tools, o.Tools[0]) },
		"labels": func(o *link.Offer) { o.Labels = map[string]string{"": "x"} },
	} {
		inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
			o := offer("a")
			change(&o)
			if _, _, _, err := w.hub.Connect(alice, o, &line{}); !errors.As(err, new(*worker.InvalidError)) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestKnown checks that the next daemon knows an offered tool. Tool lists omit the tool while no worker serves it. A tool that was not
// offered for a long time is deleted.
func TestKnown(t *testing.T) {
	m := &memory{known: map[string]worker.Known{}}
	reconciles := offer("a")
	reconciles.Tools[0].Reconciles = true
	inBubble(t, worker.Config{Memory: m}, func(t *testing.T, w *world) { w.connect(reconciles) })
	inBubble(t, worker.Config{Memory: m, Known: m.all(), Away: time.Minute}, func(t *testing.T, w *world) {
		known := w.registry.get("a")
		if known == nil {
			t.Fatal("the tool is not known")
		}
		d := known.Descriptor()
		if _, ok := known.(tool.Reconciler); !ok || w.hub.Absent(&d) || d.Source != "worker:default/p" {
			t.Errorf("known as %T from %s", known, d.Source)
		}
		time.Sleep(2 * time.Minute)
		if !w.hub.Absent(&d) || w.registry.refreshes() != 1 {
			t.Error("it is still in lists")
		}
		done := w.call(t.Context(), "a", nil)
		time.Sleep(10 * time.Second)
		s, l, _ := w.connect(reconciles)
		if leases := l.leases(); len(leases) != 1 || w.hub.Absent(&d) || w.registry.refreshes() != 2 {
			t.Errorf("the worker is back: leases %v", leases)
		}
		_ = s.Finish(l.leases()[0], tool.Text("done"), nil)
		if out := <-done; out.err != nil {
			t.Error(out.err)
		}
	})
	if !(&worker.Hub{}).Hidden(tool.Principal{Namespace: "other"}, &tool.Descriptor{Source: "worker:default/p"}) {
		t.Error("another tenant sees it")
	}
	old := m.all()
	old[0].Seen = old[0].Seen.AddDate(-1, 0, 0)
	inBubble(t, worker.Config{Memory: m, Known: old}, func(t *testing.T, w *world) {
		if w.registry.get("a") != nil || len(m.all()) > 0 {
			t.Error("it is not forgotten")
		}
	})
}

func TestReconcileAndAbandon(t *testing.T) {
	inBubble(t, worker.Config{}, func(t *testing.T, w *world) {
		o := offer("a")
		o.Tools[0].Reconciles, o.Tools[0].Abandons = true, true
		s, l, _ := w.connect(o)
		r := w.registry.get("a").(tool.Reconciler)
		go func() {
			synctest.Wait()
			_ = s.Finish(l.leases()[0], nil, tool.ErrNotRun)
		}()
		if _, err := r.Reconcile(t.Context(), &tool.Call{}); !errors.Is(err, tool.ErrNotRun) {
			t.Error(err)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.registry.get("a").(tool.Abandoner).Abandon(late, &tool.Call{})
		if leases := l.leases(); l.kinds[1] != worker.Abandon || !slices.Equal(l.lost, leases[1:]) || w.hub.Stats().Leases != 0 {
			t.Errorf("asked %v, lost %v", l.kinds, l.lost)
		}
	})
}
