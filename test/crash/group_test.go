package crash_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/test/crash/ledger"
)

// A group is a batch of the workload. To request one of its calls again, a client sends the whole batch.
type group struct {
	spec      *tooldv1.BatchSpec
	caller    string
	items     []*item
	published atomic.Bool // clients have seen events of the batch, so the daemon must keep it
	checking  sync.Mutex  // held while one call of the batch is checked
}

// newTurn makes a batch of calls of one caller and sends it. It uses only calls that end by themselves and ask no questions. Otherwise a
// call could wait behind an open question and make no progress. The life would then never end, because it waits until every call has ended
// or is suspended.
func (l *life) newTurn(rng *rand.Rand) bool {
	fit := slices.DeleteFunc(slices.Clone(l.kinds), func(k *kind) bool {
		return k.caller != asked || k.answer != nil || k.tool == asksFirst || k.most > 0 || k.thread
	})
	g := &group{caller: asked, spec: &tooldv1.BatchSpec{
		BatchId:  fmt.Sprintf("batch-%s-%05d", l.tag, l.batches.Add(1)),
		Strategy: tooldv1.BatchStrategy(1 + rng.IntN(3)), MaxParallel: int32(rng.IntN(3)),
	}}
	run := &tooldv1.Run{RunId: "run-" + g.spec.GetBatchId()}
	if rng.IntN(2) == 0 {
		run.ThreadId = "thread-" + g.spec.GetBatchId()
	}
	l.mu.Lock()
	for range 2 + rng.IntN(3) {
		it, err := l.newLocked(pick(rng, fit), l.number)
		if err != nil {
			l.mu.Unlock()
			l.led.Break("life", "new call: %v", err)
			return false
		}
		it.group, it.spec.Run = g, run
		g.items, g.spec.Calls = append(g.items, it), append(g.spec.Calls, it.spec)
	}
	l.mu.Unlock()
	l.startGroup(g, rng)
	return true
}

// startGroup sends a batch for the first time or again. It usually follows the batch until no call can make progress. It returns false when
// the outcome is unknown.
func (l *life) startGroup(g *group, rng *rand.Rand) bool {
	book := l.led.Feed(func(id string) *ledger.Call {
		g.published.Store(true)
		return l.item(id).Call
	})
	for _, it := range g.items {
		it.sent.Store(true)
		it.tries.Add(1)
	}
	first := g.items[0]
	patience := l.patience(first, rng)
	ctx, cancel := as(l.ctx, g.caller)
	defer cancel()
	var done *tooldv1.BatchFinished
	stream, err := l.calls.ExecuteBatch(ctx, &tooldv1.ExecuteBatchRequest{Spec: g.spec})
	if err == nil {
		err = read(framed[*tooldv1.ExecuteBatchResponse]{stream}, func(f *tooldv1.Frame) bool {
			l.events.Add(int64(len(f.GetEvents())))
			book.Frame(f)
			done = f.GetBatchFinished()
			return done == nil && patience != nil && patience(f)
		})
	}
	l.unexpected(first, "batch", err)
	if err != nil {
		return errors.Is(err, errEnough)
	}
	l.concluded(g, done)
	return true
}

// concluded compares the final frame of a batch with its calls.
func (l *life) concluded(g *group, done *tooldv1.BatchFinished) {
	if len(done.GetResults()) != len(g.items) {
		l.led.Break("S8", "batch %s has %d calls and ended with %d results", g.spec.GetBatchId(), len(g.items), len(done.GetResults()))
		return
	}
	for i, r := range done.GetResults() {
		it := g.items[i]
		if err := l.look(it); err != nil {
			l.unexpected(it, "look after a batch", err)
			return
		}
		if end := it.Ended(); r.GetCallId() != it.ID {
			it.Break("S8", "result %d of its batch is of %s", i, r.GetCallId())
		} else if !slices.Contains(done.GetOpen(), it.ID) && (end == nil || end.Status != r.GetStatus()) {
			it.Break("S8", "its batch ended it %v, and it is %+v", r.GetStatus(), end)
		}
	}
}
