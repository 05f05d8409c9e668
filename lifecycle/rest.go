package lifecycle

import (
	"context"
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
	places.give(p.want)
	return func(ctx context.Context) error {
		turn, giveUp := places.line(p.want)
		select {
		case <-turn:
		case <-ctx.Done():
			giveUp()
			return context.Cause(ctx)
		}
		if !p.place.CompareAndSwap(placeLent, placeHeld) {
			giveUp()
		}
		return nil
	}
}

// givePlace gives the place of a pass that has ended back, unless it is lent.
func (p *pass) givePlace() {
	if p.placed && p.place.Swap(placeGone) == placeHeld {
		p.l.e.places.give(p.want)
	}
}
