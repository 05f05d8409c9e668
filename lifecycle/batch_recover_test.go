package lifecycle_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// slowEvents is a journal that takes its time with the events of a call.
type slowEvents struct{ store.Store }

func (s slowEvents) Events(ctx context.Context, key call.Key, after int64, limit int) ([]call.Event, int64, error) {
	time.Sleep(time.Second)
	return s.Store.Events(ctx, key, after, limit)
}

// P3 for batches: a recovery that is slow does not take up a call that its batch has begun already.
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
