package lifecycle

import (
	"context"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A lane is the calls of one thread that run one after the other: those that are not safe beside each other. A call that
// another one makes while it runs has a lane of its own under that one, or it would wait for who waits for it.
type lane struct{ namespace, thread, parent string }

// lanes are those in which a call runs or waits. Calls that are safe beside others never look at them.
type lanes struct {
	length int // how many may wait in each

	mu sync.Mutex
	of map[lane]*places
}

// enter returns what is closed when it is the call's turn in its lane, and how to leave it, before that or after. Turns
// come in the order of entering. ok is false when too many wait.
func (s *lanes) enter(k lane) (turn <-chan struct{}, leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[lane]*places{}
	}
	in := s.of[k]
	if in == nil {
		in = newPlaces(1, s.length)
		s.of[k] = in
	}
	if in.full(want{}, 1) != nil {
		return nil, nil, false
	}
	turn, giveUp := in.line(want{})
	return turn, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		giveUp()
		if taken, waiting := in.count(); taken+waiting == 0 {
			delete(s.of, k)
		}
	}, true
}

// waiting returns how many calls wait for their turn.
func (s *lanes) waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.of {
		_, wait := in.count()
		n += wait
	}
	return n
}

// alone reports whether the call runs in a lane.
func (p *pass) alone() bool {
	return !p.in.Assessment.ConcurrencySafe && p.in.Run.Thread != "" && !p.l.beside.Load()
}

// takeLane waits for the call's turn in its lane, until the queue timeout.
func (p *pass) takeLane(ctx context.Context) *end {
	turn, leave, ok := p.l.e.lanes.enter(lane{p.l.key.Namespace, p.in.Run.Thread, p.in.Run.ParentCall})
	if !ok {
		return &end{status: call.Failed, executed: call.NotStarted, after: true, result: failure(&tool.Error{
			Code: tool.ResourceExhausted, Reason: "QUEUE_FULL", Aborted: true, Retryable: true,
			Message: "Not run: too many calls of this thread are waiting",
		})}
	}
	select {
	case <-turn:
	default:
		w := p.l.e.places.wantOf(&p.in.Caller, p.def.Descriptor)
		p.l.e.places.besides(w, 1)
		out := p.wait(ctx, turn, leave)
		p.l.e.places.besides(w, -1)
		if out != nil {
			return out
		}
	}
	p.leaveLane = leave
	return nil
}
