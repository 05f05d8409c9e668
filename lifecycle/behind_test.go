package lifecycle_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// heldStore is a journal that accepts all changes and writes them only when the test releases it.
type heldStore struct {
	store.Store
	mu   sync.Mutex
	kept []func()
	free bool
}

func (s *heldStore) Submit(c *store.Change, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.free {
		s.kept = append(s.kept, func() { s.Store.Submit(c, done) })
		return
	}
	s.Store.Submit(c, done)
}

func (s *heldStore) release() {
	s.mu.Lock()
	kept := s.kept
	s.kept, s.free = nil, true
	s.mu.Unlock()
	for _, submit := range kept {
		submit()
	}
}

// TestP11CallsBehindASlowJournalAreBounded checks that the number of read-only calls that the journal has not written is bounded. Calls
// that were passed to the journal also count.
func TestP11CallsBehindASlowJournalAreBounded(t *testing.T) {
	inBubble(t, []tool.Tool{echo("read", reading)}, nil, func(t *testing.T, w *world) {
		slow := &heldStore{Store: w.store}
		cfg := w.cfg
		cfg.Store = slow
		e, err := lifecycle.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer drain(e)
		defer slow.release()
		n := 0
		for ; n < 17_000; n++ {
			watcher, err := e.Execute(t.Context(), alice, spec("read", ""), call.ExecuteOptions{})
			var refusal *call.Refusal
			if errors.As(err, &refusal) && refusal.Reason == "QUEUE_FULL" {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := watcher.Wait(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if n == 17_000 || e.Stats().Unwritten < n-1 {
			t.Errorf("%d calls taken while the journal took none; %d reported as unwritten", n, e.Stats().Unwritten)
		}
		slow.release()
		time.Sleep(time.Second)
		synctest.Wait()
		if got := e.Stats().Unwritten; got != 0 {
			t.Errorf("%d unwritten when all is written", got)
		}
		if c := w.doOn(e); c.Status != call.Succeeded {
			t.Errorf("call %s", c.Status)
		}
	})
}

func (w *world) doOn(e *lifecycle.Engine) *call.Call {
	watcher, err := e.Execute(w.t.Context(), alice, spec("read", ""), call.ExecuteOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := watcher.Wait(w.t.Context(), time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// TestP4PublishedBeforeASlowGate checks the published events of a read-only call while a gate is slow. They are soon in the journal: lists
// contain the call, and after a crash the call still has these events.
func TestP4PublishedBeforeASlowGate(t *testing.T) {
	slow := hook.Entry[hook.Gate]{Name: "slow", Deadline: time.Hour, Hook: gate(func(*hook.Input) (hook.Verdict, error) {
		time.Sleep(time.Minute)
		return hook.Allow(), nil
	})}
	inBubble(t, []tool.Tool{echo("read", reading)}, gates(slow), func(t *testing.T, w *world) {
		s := spec("read", "")
		watcher := w.start(s, call.ExecuteOptions{})
		f, err := watcher.Next(t.Context())
		if err != nil || len(f.Events) != 1 || f.Events[0].Type != call.EventAccepted {
			t.Fatalf("%+v, %v", f, err)
		}
		watcher.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		if page, err := w.e.Records().List(t.Context(), carol, everything); err != nil || len(page.Calls) != 1 {
			t.Errorf("%d calls listed, %v", len(page.Calls), err)
		}
		w.crash()
		again, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{Cursor: f.Cursor})
		if err != nil {
			t.Fatal(err)
		}
		list, _ := events(t, again)
		if got := types(t, 2, list); got != "attempt_started finished" {
			t.Errorf("published %s", got)
		}
		w.checkLog(s.ID)
	})
}

// TestP4RecordShowsThatItIsNotStored checks that a call's record reports when a crash could still lose the call. While the gates of a SYNC
// or BEHIND call run, a crash could lose it, because the journal does not have the call yet.
func TestP4RecordShowsThatItIsNotStored(t *testing.T) {
	slow := hook.Entry[hook.Gate]{Name: "slow", Deadline: time.Hour, Hook: gate(func(*hook.Input) (hook.Verdict, error) {
		time.Sleep(20 * time.Millisecond)
		return hook.Allow(), nil
	})}
	for name, effects := range map[string]tool.Effects{"mutating": mutating, "read-only": reading} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, []tool.Tool{echo("t", effects)}, gates(slow), func(t *testing.T, w *world) {
				var wrote atomic.Bool
				w.useStore(nil, func(*store.Change) error {
					time.Sleep(20 * time.Millisecond)
					wrote.Store(true)
					return nil
				})
				s := spec("t", "")
				watcher := w.start(s, call.ExecuteOptions{})
				defer watcher.Close()
				again := w.start(s, call.ExecuteOptions{})
				defer again.Close()
				f, err := again.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for what, c := range map[string]*call.Call{"record": w.get(s.ID), "snapshot": f.Snapshot, "answer": again.Call()} {
					if c.Revision != 0 || c.Class != call.Behind {
						t.Errorf("the %s of a call that is not stored: revision %d, %s", what, c.Revision, c.Class)
					}
				}
				for range 50 { // Try repeatedly, because the change that stores the call takes a while.
					stored := wrote.Load()
					if c := w.get(s.ID); c.Revision != 0 && !stored {
						t.Errorf("the record of a call that is being stored: %s, revision %d", c.Status, c.Revision)
					}
					time.Sleep(5 * time.Millisecond)
				}
				time.Sleep(time.Second)
				if c := w.get(s.ID); c.Revision == 0 {
					t.Errorf("the record of a stored call: revision %d", c.Revision)
				}
			})
		})
	}
}
