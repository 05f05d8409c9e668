package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/memory"
	"github.com/toold-dev/toold/tool"
)

// ownedStore is a store that another daemon can take over, like a store on a server.
type ownedStore struct {
	*memory.Store
	hold time.Duration
	own  func(context.Context) error
}

func (s *ownedStore) Hold() time.Duration { return s.hold }

func (s *ownedStore) StartBy(ctx context.Context) (time.Duration, error) { return 0, s.Own(ctx) }

func (s *ownedStore) Own(ctx context.Context) error {
	if s.own == nil {
		return nil
	}
	return s.own(ctx)
}

// takeOver starts the next daemon on the store of a killed daemon.
func (w *world) takeOver(hold time.Duration, own func(context.Context) error) {
	w.t.Helper()
	cfg := w.cfg
	cfg.Store = &ownedStore{w.store, hold, own}
	e, err := lifecycle.New(cfg)
	if err == nil {
		_, err = e.Recover(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.e = e
}

// TestT126SuccessorLeavesAttemptsAlone checks a new owner of the journal while the previous owner may still run a call. Until the hold is
// over, the new owner neither repeats nor ends the call, even after a cancellation. It also starts no other call of the thread. Calls of
// other threads run at once.
func TestT126SuccessorLeavesAttemptsAlone(t *testing.T) {
	for _, as := range []tool.Descriptor{{ID: "t"}, {ID: "t", Idempotent: true}} {
		p := held()
		inBubble(t, []tool.Tool{p.toolAs(as)}, nil, func(t *testing.T, w *world) {
			id := w.begin(spec("t", ""))
			w.kill()
			p.free()
			synctest.Wait()
			w.takeOver(40*time.Second, nil)
			if c := w.do(apart(spec("t", ""))); c.Status != call.Succeeded {
				t.Errorf("a call of another thread is %s", c.Status)
			}
			runs := p.runs.Load()
			next := w.begin(spec("t", ""))
			if _, err := w.e.Cancel(t.Context(), alice, id, "", 0); err != nil {
				t.Error(err)
			}
			time.Sleep(39 * time.Second)
			if c := w.get(id); c.Status != call.Running || c.Cancel == nil || p.runs.Load() != runs {
				t.Errorf("before the hold is over the call is %s, %d runs, want %d", c.Status, p.runs.Load(), runs)
			}
			if c := w.get(next); c.Status != call.New {
				t.Errorf("the next call of the thread is %s", c.Status)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if c := w.get(id); c.Status != call.Cancelled || c.Executed != call.ExecutedUnknown {
				t.Errorf("after the hold the call is %s, %s", c.Status, c.Executed)
			}
			if c := w.get(next); c.Status != call.Succeeded || p.runs.Load() != runs+1 {
				t.Errorf("the next call of the thread is %s, %d runs", c.Status, p.runs.Load())
			}
		})
	}
}

// TestT126CallContinuesAfterTheHold checks two calls that were not cancelled during the hold. After the hold, the idempotent call runs
// again, and the other call ends in doubt.
func TestT126CallContinuesAfterTheHold(t *testing.T) {
	p := held()
	again := p.toolAs(tool.Descriptor{ID: "again", Idempotent: true})
	inBubble(t, []tool.Tool{p.tool("once", mutating), again}, nil, func(t *testing.T, w *world) {
		once, idempotent := w.begin(apart(spec("once", ""))), w.begin(apart(spec("again", "")))
		w.kill()
		p.free()
		synctest.Wait()
		w.takeOver(40*time.Second, nil)
		time.Sleep(41 * time.Second)
		synctest.Wait()
		if c := w.get(once); c.Result == nil || c.Result.Error.Code != tool.InDoubt {
			t.Errorf("the call is %s %+v, want IN_DOUBT", c.Status, c.Result)
		}
		if c := w.get(idempotent); c.Status != call.Succeeded || len(c.Attempts) != 2 {
			t.Errorf("the idempotent call is %s, %d attempts", c.Status, len(c.Attempts))
		}
	})
}

// TestT126DaemonEndsInTheHold checks a daemon that ends during the hold. The next daemon recovers the calls of the hold.
func TestT126DaemonEndsInTheHold(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, nil, func(t *testing.T, w *world) {
		id := w.begin(spec("t", ""))
		w.kill()
		w.takeOver(40*time.Second, nil)
		began := time.Now()
		w.crash()
		if d := time.Since(began); d > time.Second {
			t.Errorf("the drain took %v", d)
		}
		if c := w.get(id); c.Result == nil || c.Result.Error.Code != tool.InDoubt {
			t.Errorf("the call is %s", c.Status)
		}
	})
}

// TestT126NothingStartsWithoutProof checks a daemon that was paused between the intent and the start of a tool. If another daemon owns the
// journal by then, the paused daemon does not start the tool. If only the database server was slow, the daemon starts the tool when its
// ownership is proven again.
func TestT126NothingStartsWithoutProof(t *testing.T) {
	for _, lost := range []bool{true, false} {
		p := &probe{}
		inBubble(t, []tool.Tool{p.tool("t", mutating), p.tool("r", reading)}, nil, func(t *testing.T, w *world) {
			answer := make(chan error, 1)
			w.kill()
			w.takeOver(0, func(ctx context.Context) error {
				select {
				case err := <-answer:
					return err
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			cancelled := w.begin(apart(spec("t", "")))
			if _, err := w.e.Cancel(t.Context(), alice, cancelled, "", 0); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if c := w.get(cancelled); c.Status != call.Cancelled || c.Executed != call.NotStarted || p.runs.Load() != 0 {
				t.Errorf("the cancelled call is %s, %s, %d runs", c.Status, c.Executed, p.runs.Load())
			}
			if c := w.do(apart(spec("r", ""))); c.Status != call.Succeeded {
				t.Errorf("a read-only call is %s: it changes nothing", c.Status)
			}
			id, runs := w.begin(spec("t", "")), p.runs.Load()
			if c := w.get(id); c.Status != call.Running || runs != 1 {
				t.Errorf("the call is %s, %d runs", c.Status, runs)
			}
			if lost {
				answer <- fmt.Errorf("%w: taken", store.ErrFatal)
			} else {
				answer <- nil
			}
			synctest.Wait()
			want := map[bool]int64{true: 1, false: 2}[lost]
			if p.runs.Load() != want {
				t.Errorf("lost %t: %d runs, want %d", lost, p.runs.Load(), want)
			}
			w.crash()
			if c := w.get(id); lost && (c.Result == nil || c.Result.Error.Code != tool.InDoubt) || !lost && c.Status != call.Succeeded {
				t.Errorf("lost %t: the next daemon has the call as %s", lost, c.Status)
			}
		})
	}
}

// TestT89FencedOwnerSendsCallersOn checks a daemon that has lost its journal. It answers every request with UNAVAILABLE, so that clients
// reconnect to the next daemon.
func TestT89FencedOwnerSendsCallersOn(t *testing.T) {
	inBubble(t, nil, nil, func(t *testing.T, w *world) {
		w.store.Crash()
		ctx := t.Context()
		for name, ask := range map[string]func() error{
			"get":       func() error { _, err := w.e.Records().Get(ctx, alice, newCallID()); return err },
			"list":      func() error { _, err := w.e.Records().List(ctx, alice, call.Query{Namespace: "ns"}); return err },
			"run":       func() error { _, err := w.e.Records().Run(ctx, alice, "run-1"); return err },
			"documents": func() error { _, err := w.e.Records().Documents(ctx, carol, tool.NamespaceScope, ""); return err },
			"call":      func() error { _, err := w.e.Execute(ctx, alice, spec("t", ""), call.ExecuteOptions{}); return err },
		} {
			if r, ok := errors.AsType[*call.Refusal](ask()); !ok || r.Kind != call.Unavailable || r.Reason != "JOURNAL_FAILED" {
				t.Errorf("%s is answered with %v, want UNAVAILABLE JOURNAL_FAILED", name, ask())
			}
		}
	})
}

// TestT126NoWebhookOfAFencedOwner checks that actions, such as webhooks, are executed only by the daemon that owns the journal.
func TestT126NoWebhookOfAFencedOwner(t *testing.T) {
	h := &handler{}
	inBubble(t, []tool.Tool{asksFor(do(tool.AfterCommit, "1"))}, handlers(map[string]*handler{"h": h}), func(t *testing.T, w *world) {
		w.do(spec("t", ""))
		w.kill()
		taken := fmt.Errorf("%w: taken", store.ErrFatal)
		w.takeOver(0, func(context.Context) error { return taken })
		w.act()
		h.wantReceived(t, "")
		w.crash()
		w.act()
		h.wantReceived(t, "AFTER_COMMIT 1 1.1")
	})
}

// TestT126BatchContinuesAfterTheHold checks a batch with a call that the previous owner may still run. The batch waits for the hold, and then
// continues to its end.
func TestT126BatchContinuesAfterTheHold(t *testing.T) {
	for _, strategy := range strategies {
		p := held()
		inBubble(t, []tool.Tool{p.tool("once", mutating)}, nil, func(t *testing.T, w *world) {
			b := batchOf(strategy, of("once", "once", "once")...)
			w.launch(b)
			w.kill()
			p.free()
			synctest.Wait()
			before, want := p.runs.Load(), "FAILED/IN_DOUBT SUCCEEDED SUCCEEDED"
			if strategy == call.Parallel {
				want = "FAILED/IN_DOUBT FAILED/IN_DOUBT FAILED/IN_DOUBT"
			}
			w.takeOver(40*time.Second, nil)
			time.Sleep(39 * time.Second)
			if n := p.runs.Load() - before; n != 0 {
				t.Errorf("%s: %d runs before the hold is over", strategy, n)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			w.wantBatch(b, want)
		})
	}
}
