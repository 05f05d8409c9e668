package lifecycle_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// slowEvents is a journal that is slow to read the events of a call.
type slowEvents struct{ store.Store }

func (s slowEvents) Events(ctx context.Context, key call.Key, after int64, limit int) ([]call.Event, int64, error) {
	time.Sleep(time.Second)
	return s.Store.Events(ctx, key, after, limit)
}

// TestBatchBeginsAfterRecovery checks that a slow recovery does not resume a call that its batch has already begun. Otherwise the call
// would run twice (promise P3).
func TestBatchBeginsAfterRecovery(t *testing.T) {
	for _, strategy := range strategies {
		t.Run(string(strategy), func(t *testing.T) {
			p := &probe{}
			slow := made("slow", reading, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
				p.runs.Add(1)
				time.Sleep(1500 * time.Millisecond)
				return tool.Text("done"), nil
			})
			inBubble(t, []tool.Tool{slow}, nil, func(t *testing.T, w *world) {
				b := batchOf(strategy, of("slow", "slow", "slow", "slow")...)
				var once sync.Once
				w.cfg.FailPoint = func(name string) {
					if name == "before-tool" {
						once.Do(func() { w.store = w.store.Crash() })
					}
				}
				w.crash()
				w.launch(b)
				w.past = append(w.past, w.e)
				drain(w.e)
				synctest.Wait()
				before := p.runs.Load()
				core, errs := observer.New(zap.ErrorLevel)
				w.cfg.Store, w.cfg.Log = slowEvents{w.store}, zap.New(core)
				e, err := lifecycle.New(w.cfg)
				if err != nil {
					t.Fatal(err)
				}
				w.e = e
				if _, err := e.Recover(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				for _, c := range w.wantBatch(b, "SUCCEEDED SUCCEEDED SUCCEEDED SUCCEEDED") {
					w.checkLog(c.ID)
				}
				if n := p.runs.Load() - before; n != 4 {
					t.Errorf("%d runs", n)
				}
				for _, entry := range errs.All() {
					t.Errorf("%s: %v", entry.Message, entry.ContextMap())
				}
			})
		})
	}
}

// TestT108ReleasedBatchContinues checks a batch of a copied store after an operator has released all of its calls. The batch continues as
// after a normal start. A batch whose end was not stored ends.
func TestT108ReleasedBatchContinues(t *testing.T) {
	for name, selectors := range map[string]func(b call.BatchSpec) []call.HeldSelector{
		"at once": func(call.BatchSpec) []call.HeldSelector { return []call.HeldSelector{{All: true}} },
		"one by one": func(b call.BatchSpec) (all []call.HeldSelector) {
			for _, c := range b.Calls {
				all = append(all, call.HeldSelector{IDs: []string{c.ID}})
			}
			return all
		},
		"the last first": func(b call.BatchSpec) (all []call.HeldSelector) {
			for _, c := range slices.Backward(b.Calls) {
				all = append(all, call.HeldSelector{IDs: []string{c.ID}})
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := held()
			inBubble(t, []tool.Tool{p.tool("first", mutating), echo("write", mutating)}, nil, func(t *testing.T, w *world) {
				ends, b := batchOf(call.Sequential, apart(spec("write", ""))), batchOf(call.Sequential, of("first", "write", "write")...)
				usual := w.cfg.FailPoint
				w.cfg.FailPoint = func(name string) {
					if name == "before-batch-end" {
						w.store = w.store.Crash()
					}
				}
				w.crash()
				w.launch(b)
				w.launch(ends)
				w.cfg.FailPoint = usual
				w.cfg.Released = func() error { w.store.SetMoved(false); return nil }
				w.kill()
				w.store.SetMoved(true)
				w.open()
				synctest.Wait()
				w.wantBatch(b, "RUNNING NEW NEW")
				for _, which := range selectors(b) {
					if _, _, err := w.e.Release(t.Context(), carol, which, false, ""); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				for _, c := range w.wantBatch(b, "FAILED/IN_DOUBT SUCCEEDED SUCCEEDED") {
					w.checkLog(c.ID)
				}
				for _, b := range []call.BatchSpec{b, ends} {
					record, err := w.store.Batch(t.Context(), call.Key{Namespace: alice.Namespace, ID: b.ID})
					if err != nil || record.Ended == 0 {
						t.Errorf("batch %s has not ended: %v", b.ID, err)
					}
				}
			})
		})
	}
}

// slowBatch is a journal whose reads of a batch are slow and then fail.
type slowBatch struct {
	store.Store
	fails *atomic.Bool
}

func (s slowBatch) Batch(ctx context.Context, key call.Key) (*call.Batch, error) {
	if s.fails.Swap(false) {
		time.Sleep(time.Minute)
		return nil, errors.New("the connection to the journal is lost")
	}
	return s.Store.Batch(ctx, key)
}

// TestBatchDecisionDuringAFailedLoad checks a decision that arrives while another goroutine loads the batch and fails. The decision
// still takes effect.
func TestBatchDecisionDuringAFailedLoad(t *testing.T) {
	inBubble(t, []tool.Tool{echo("gated", mutating), echo("write", mutating)}, gates(asking("gated")), func(t *testing.T, w *world) {
		b := batchOf(call.Sequential, of("gated", "write")...)
		w.launch(b)
		fails := &atomic.Bool{}
		w.past = append(w.past, w.e)
		drain(w.e)
		w.cfg.Store = slowBatch{w.store, fails}
		var err error
		if w.e, err = lifecycle.New(w.cfg); err != nil {
			t.Fatal(err)
		}
		if _, err = w.e.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		fails.Store(true)
		go func() {
			if watcher, err := w.e.ExecuteBatch(context.Background(), alice, b, call.ExecuteOptions{}); err == nil {
				watcher.Close()
			}
		}()
		synctest.Wait()
		w.decide(bob, b.Calls[0].ID, yes())
		time.Sleep(2 * time.Minute)
		w.wantBatch(b, "SUCCEEDED SUCCEEDED")
	})
}
