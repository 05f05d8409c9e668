package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/call"
)

// rests is a call to be cancelled that rests until calls that it made have ended, with a reference to it.
type rests struct {
	l     *live
	r     call.CancelRequest
	depth int // below what is cancelled
}

type resting []rests

// mostStopped is how many calls at once are waited for. Each has a goroutine and watches the calls that it made.
const mostStopped = 64

// endResting ends calls that rest. It returns when they have ended, or ctx is done: then it goes on by itself, and a drain waits for it.
func (e *Engine) endResting(ctx context.Context, list resting) error {
	if len(list) == 0 {
		return nil
	}
	e.enter()
	done := make(chan error, 1)
	go func() {
		defer e.leave()
		err := list.end()
		if err != nil && ctx.Err() != nil { // who asked does not hear it
			e.log.Warn("calls that rested are not cancelled", zap.Error(err))
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil
	}
}

// end ends the calls, those that are deeper first and the others beside each other: they share the time that calls below them have.
func (list resting) end() error {
	slices.SortStableFunc(list, func(a, b rests) int { return cmp.Compare(b.depth, a.depth) })
	errs := make([]error, len(list))
	places := make(chan struct{}, mostStopped)
	var level sync.WaitGroup
	for i := range list {
		if i > 0 && list[i].depth < list[i-1].depth {
			level.Wait()
		}
		places <- struct{}{}
		level.Go(func() {
			errs[i] = list[i].end()
			<-places
		})
	}
	level.Wait()
	return errors.Join(errs...)
}

func (s *rests) end() error {
	defer s.l.release()
	defer s.l.ending.Add(-1)
	var left below
	if s.l.record().Status == call.Suspended {
		left = s.l.lookupPass().stopBelow(time.Until(s.r.Time.Add(s.l.e.stopMost())))
	}
	return s.l.cancelCall(s.r, left)
}
