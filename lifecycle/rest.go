package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// Whether a pass has the place that it got. Who abandons an attempt and its tool may both give it back: one of them does.
const (
	placeHeld int32 = iota
	placeLent       // its tool waits for calls of its own
	placeGone       // the pass has ended
)

type attemptKey struct{}

// Value implements [context.Context]: with it [Lend] finds the attempt.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// Lend gives the place back of the call whose tool has this context: the tool waits for calls of its own, which may need it. back
// waits for a place again, behind others who do; it is called once, before the tool goes on, and fails when ctx is done. The
// context of anything else lends nothing.
func Lend(ctx context.Context) (back func(ctx context.Context) error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok || !a.p.placed || !a.p.place.CompareAndSwap(placeHeld, placeLent) {
		return func(context.Context) error { return nil }
	}
	p := a.p
	places := p.l.e.places
	places.lend(p.want)
	return func(ctx context.Context) error {
		turn, giveUp := places.line(p.want)
		select {
		case <-turn:
		case <-ctx.Done():
			giveUp()
			return context.Cause(ctx)
		}
		if p.place.CompareAndSwap(placeLent, placeHeld) {
			places.lends(p.want, -1)
		} else {
			giveUp()
		}
		return nil
	}
}

// givePlace gives the place of a pass that has ended back, unless it is lent.
func (p *pass) givePlace() {
	if !p.placed {
		return
	}
	switch p.place.Swap(placeGone) {
	case placeHeld:
		p.l.e.places.give(p.want)
	case placeLent:
		p.l.e.places.lends(p.want, -1)
	}
}

func (s *places) lend(w want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	countAll(&s.lent, w, 1)
	s.giveLocked(&w)
}

func (s *places) lends(w want, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	countAll(&s.lent, w, n)
}

// lentFull returns why no more calls may come that lend their places: as many have as calls may wait. Those that a call made may be eight times
// as many, or those above them would wait for them in vain.
func (s *places) lentFull(p *tool.Principal, below bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lent) == 0 {
		return nil
	}
	share := 1
	if below {
		share = 8 // as deep as subagents may be nested: a level has room when those above it are as many as may be
	}
	return s.tooMany(s.lent[holder{}]/share, s.lent[holder{namespace: p.Namespace}]/share, s.lent[holder{namespace: p.Namespace, principal: p.Subject}]/share, 1)
}

// roomToLend refuses a new call of a tool that makes calls of its own while too many of those work without a place. The calls that they
// make are let in, or nothing would ever get better.
func (e *Engine) roomToLend(p *tool.Principal, spec *call.Spec) error {
	full := e.places.lentFull(p, spec.Run.ParentCall != "")
	if full == nil {
		return nil
	}
	def, ok := e.cfg.Tools.Lookup(p.Namespace, spec.Tool)
	if !ok {
		return nil
	}
	if _, ok := def.Tool.(tool.Stopper); !ok {
		return nil
	}
	e.stats.queueRefused.Add(1)
	return full
}
