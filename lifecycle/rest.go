package lifecycle

import "context"

type attemptKey struct{}

// Value implements [context.Context]: with it [Lend] finds the attempt.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// Lend lends the slot of the call whose tool has this context: the tool waits for calls that it made, which may need the slot. The tool
// calls reclaim once, before it continues; reclaim waits for a slot behind others, and fails when its ctx is done. Any other context lends
// nothing.
func Lend(ctx context.Context) (reclaim func(ctx context.Context) error) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a.p.capacity.slot.Lend()
	}
	return func(context.Context) error { return nil }
}
