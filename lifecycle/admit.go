package lifecycle

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
	"go.uber.org/zap"
)

// places bounds how many calls run at once; the others wait in the order in which they came.
type places struct {
	most, length int

	mu      sync.Mutex
	taken   int
	waiting list.List // of chan struct{}
}

func newPlaces(most, length int) *places { return &places{most: most, length: length} }

func (s *places) count() (taken, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken, s.waiting.Len()
}

// full reports whether nobody more may wait.
func (s *places) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken >= s.most && s.waiting.Len() >= s.length
}

// take reports whether there was a place.
func (s *places) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most {
		return false
	}
	s.taken++
	return true
}

// line returns what is closed when there is a place, and how to give up waiting.
func (s *places) line() (turn <-chan struct{}, giveUp func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := make(chan struct{})
	if s.taken < s.most {
		s.taken++
		close(ready)
		return ready, s.give
	}
	at := s.waiting.PushBack(ready)
	return ready, func() {
		s.mu.Lock()
		select {
		case <-ready: // the place came meanwhile: somebody else may have it
			s.mu.Unlock()
			s.give()
		default:
			s.waiting.Remove(at)
			s.mu.Unlock()
		}
	}
}

// give passes a place on.
func (s *places) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.waiting.Front(); first != nil {
		close(s.waiting.Remove(first).(chan struct{}))
		return
	}
	s.taken--
}

// queue takes a place for the attempt, waiting at most the queue timeout.
func (p *pass) queue(ctx context.Context) *end {
	if !p.takePlace() {
		turn, giveUp := p.l.e.places.line()
		if out := p.wait(ctx, turn, giveUp); out != nil {
			return out
		}
		p.placed = true
	}
	return nil
}

// takePlace reports whether the pass has a place.
func (p *pass) takePlace() bool {
	p.placed = p.placed || p.l.e.places.take()
	return p.placed
}

func (p *pass) wait(ctx context.Context, turn <-chan struct{}, giveUp func()) *end {
	// While it waits the call is in the journal: a restart finds it.
	err := p.l.advance(step{apply: p.noted(nil), events: []call.Event{{Type: call.EventQueued}}, durability: store.Normal})
	if err != nil {
		giveUp()
		return p.unwritten(err)
	}
	limit := or(p.l.record().Timeouts.Queue, or(p.def.Descriptor.Timeouts.Queue, p.l.e.cfg.QueueTimeout))
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		giveUp()
		return p.stopped(ctx)
	case <-timer.C:
		giveUp()
		return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&tool.Error{
			Code: tool.Timeout, Reason: "QUEUE", Aborted: true, Retryable: true,
			Message: fmt.Sprintf("Timed out after %v in the queue; it was not run", limit),
		})}
	}
}

// admit asks the Admit hooks for this attempt.
func (p *pass) admit(ctx context.Context) *end {
	for _, entry := range p.hooks.Admit {
		if !entry.Match.Holds(p.in) {
			continue
		}
		release, err := bounded(ctx, entry.Deadline, func(ctx context.Context) (func(), error) { return entry.Hook.Admit(ctx, p.in) })
		if err != nil && ctx.Err() != nil {
			return p.stopped(ctx) // that is no fault of the hook
		}
		var refusal *tool.Error
		if err != nil && !errors.As(err, &refusal) {
			if out := p.failedHook("admit", entry.Name, entry.OnFailure, err); out != nil {
				return out
			}
			continue
		}
		if err != nil {
			e := *refusal
			e.Code, e.Retryable, e.Aborted = tool.ResourceExhausted, true, true
			e.Reason = or(e.Reason, entry.Name)
			return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&e)}
		}
		if release != nil {
			p.releases = append(p.releases, release)
		}
	}
	return nil
}

// before runs the Before hooks of this attempt. Only a required one can fail the call.
func (p *pass) before(ctx context.Context) *end {
	for _, entry := range p.hooks.Before {
		if !entry.Match.Holds(p.in) {
			continue
		}
		commands, err := bounded(ctx, entry.Deadline, func(ctx context.Context) ([]tool.Command, error) { return entry.Hook.Before(ctx, p.in) })
		if err == nil {
			p.commands = append(p.commands, commands...)
			continue
		}
		p.l.e.stats.hookFailures.Add(1)
		p.l.e.log.Warn("before hook failed", zap.String("hook", entry.Name), zap.String("call_id", p.l.key.ID), zap.Error(err))
		if out := broken(entry.Name, err); out != nil {
			return out
		}
		if entry.Required {
			return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&tool.Error{
				Code: tool.ExecutionFailed, Reason: entry.Name, Aborted: true, DeveloperMessage: err.Error(),
				Message: fmt.Sprintf("Not run: the hook %q failed", entry.Name),
			})}
		}
	}
	return nil
}
