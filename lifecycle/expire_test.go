package lifecycle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

func TestT101DecisionAndExpiryRace(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{ExpiresIn: time.Second}))), func(t *testing.T, w *world) {
		won := map[string]int{}
		for round := range 1000 {
			p.runs.Store(0)
			c := w.do(spec("t", ""))
			until := c.Open().ExpiresAt.Sub(w.store.Now())
			// The fake clock stops during the race. The rounds therefore alternate: the race happens at the moment of expiry, or just
			// before it.
			time.Sleep(until - time.Duration(round%2))
			var all sync.WaitGroup
			var decided error
			all.Go(func() { _, decided = w.resume(bob, c, yes()) })
			all.Go(func() {
				if err := w.e.ExpireDue(context.Background()); err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			synctest.Wait()
			now := w.get(c.ID)
			if decided != nil {
				var r *call.Refusal
				if !errors.As(decided, &r) || r.Reason != "SUSPENSION_EXPIRED" {
					t.Fatalf("round %d: %v", round, decided)
				}
				won["expiry"]++
				if now.Status != call.Cancelled || now.Result.Error.Code != tool.Expired || !now.Rounds[0].Expired || now.Rounds[0].Decision != nil || p.runs.Load() != 0 {
					t.Fatalf("round %d: call %s %+v, %d runs", round, now.Status, now.Result, p.runs.Load())
				}
			} else {
				won["decision"]++
				if now.Status != call.Succeeded || now.Rounds[0].Expired || p.runs.Load() != 1 {
					t.Fatalf("round %d: call %s %+v, %d runs", round, now.Status, now.Result, p.runs.Load())
				}
			}
		}
		if won["expiry"] != 500 || won["decision"] != 500 {
			t.Errorf("won %v", won)
		}
	})
}

func TestT101DaemonDownAtExpiry(t *testing.T) {
	p := &probe{}
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{ExpiresIn: time.Hour}))), func(t *testing.T, w *world) {
		early, late := w.do(spec("t", "")), w.do(spec("t", ""))
		w.kill()
		time.Sleep(2 * time.Hour)
		w.open()
		if c := w.get(early.ID); c.Status != call.Suspended {
			t.Errorf("call is %s before anybody looked", c.Status)
		}
		w.refuse(bob, early, yes(), call.FailedPrecondition, "SUSPENSION_EXPIRED")
		if err := w.e.ExpireDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*call.Call{early, late} {
			if now := w.get(c.ID); now.Status != call.Cancelled || now.Result.Error.Code != tool.Expired {
				t.Errorf("call is %s", now.Status)
			}
			w.checkLog(c.ID)
		}
		_, err := w.resume(bob, late, yes())
		wantRefusal(t, err, call.FailedPrecondition, "SUSPENSION_EXPIRED")
		if p.runs.Load() != 0 {
			t.Error("tool ran")
		}
	})
}

// TestP8ClockJumpNeverReopens checks that an expired question stays expired when the system clock is set back. The store's clock never runs
// backwards.
func TestP8ClockJumpNeverReopens(t *testing.T) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{ExpiresIn: time.Hour}))), func(t *testing.T, w *world) {
		var back time.Duration
		w.useStore(func() time.Time { return time.Now().Add(-back) }, nil)
		expired, open := w.do(spec("t", "")), w.do(spec("t", ""))
		time.Sleep(time.Hour)
		w.refuse(bob, expired, yes(), call.FailedPrecondition, "SUSPENSION_EXPIRED")
		back = 3 * time.Hour
		w.refuse(bob, expired, yes(), call.FailedPrecondition, "SUSPENSION_EXPIRED")
		w.crash()
		w.refuse(bob, open, yes(), call.FailedPrecondition, "SUSPENSION_EXPIRED")
	})
}

// TestSweepExpiresInTime checks that a question that is asked while Sweep waits still expires on time.
func TestSweepExpiresInTime(t *testing.T) {
	for _, open := range []time.Duration{time.Second, 10 * time.Minute} {
		t.Run(open.String(), func(t *testing.T) { sweepsIn(t, open) })
	}
}

func sweepsIn(t *testing.T, open time.Duration) {
	inBubble(t, []tool.Tool{echo("t", mutating)}, gates(namedGate("ask", approval(tool.Ticket{ExpiresIn: open}))), func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.e.Sweep(ctx) }()
		synctest.Wait()
		s := spec("t", "")
		watcher := w.start(s, call.ExecuteOptions{WaitForDecision: true})
		began := time.Now()
		list, _ := events(t, watcher)
		if got := types(t, 1, list); got != "accepted gate_decided suspended finished" {
			t.Errorf("events %s", got)
		}
		if took := time.Since(began); took < open || took > open+time.Second {
			t.Errorf("expired after %v", took)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDefaultAnswerAtExpiry(t *testing.T) {
	for _, down := range []bool{false, true} {
		inBubble(t, []tool.Tool{asks("t", tool.Ticket{ExpiresIn: time.Hour, DefaultResult: `"later"`})}, nil, func(t *testing.T, w *world) {
			c := w.do(spec("t", ""))
			if c.Open().OnExpiry() != "DEFAULT" {
				t.Errorf("on expiry %s", c.Open().OnExpiry())
			}
			if down {
				w.crash()
			}
			time.Sleep(time.Hour)
			w.refuse(alice, c, tool.Decision{Action: tool.Resume, Result: `"now"`}, call.FailedPrecondition, "SUSPENSION_EXPIRED")
			if err := w.e.ExpireDue(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			c = w.get(c.ID)
			if r := c.Rounds[0]; c.Status != call.Succeeded || c.Result.Data != `"later"` || !r.Expired || r.Decision.DecidedBy.Subject != "toold" {
				t.Errorf("call %s %+v %+v", c.Status, c.Result, r)
			}
			w.checkLog(c.ID)
		})
	}
}

// earlyStore reports a call as due although its due question was answered meanwhile and the call has a newer question.
type earlyStore struct {
	store.Store
	ids []string
}

func (s *earlyStore) DueNamespaces(context.Context) ([]string, error) { return []string{"ns"}, nil }

func (s *earlyStore) Due(ctx context.Context, _ string, _ int) (due []*call.Call, err error) {
	for _, id := range s.ids {
		c, err := s.Store.Call(ctx, call.Key{Namespace: "ns", ID: id})
		if err != nil {
			return nil, err
		}
		due = append(due, c)
	}
	return due, nil
}

func TestNothingExpiresBeforeItsTime(t *testing.T) {
	inBubble(t, []tool.Tool{asks("t", tool.Ticket{ExpiresIn: time.Hour}), asks("default", tool.Ticket{ExpiresIn: time.Hour, DefaultResult: `1`})}, nil, func(t *testing.T, w *world) {
		waiting := []string{w.do(spec("t", "")).ID, w.do(spec("default", "")).ID}
		cfg := w.cfg
		cfg.Store = &earlyStore{w.store, waiting}
		w.past = append(w.past, w.e)
		var err error
		if w.e, err = lifecycle.New(cfg); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Millisecond)
		if err := w.e.ExpireDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range waiting {
			if c := w.get(id); c.Status != call.Suspended {
				t.Errorf("call is %s", c.Status)
			}
		}
		if w.answer(alice, w.get(waiting[0]), tool.Decision{Action: tool.Resume, Result: `2`}).Status != call.Succeeded {
			t.Error("the question that stayed open cannot be answered")
		}
	})
}
