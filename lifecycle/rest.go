package lifecycle

import "context"

type attemptKey struct{}

// Value implements [context.Context]. [Lend] uses it to find the attempt.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// Lend lends the slot of the call whose tool has this context, while the tool waits for its nested calls. The nested calls may need the
// slot. The tool must call reclaim once before it continues. reclaim waits for a slot behind other calls, and fails when its ctx is done.
// For any other context, Lend does nothing.
func Lend(ctx context.Context) (reclaim func(ctx context.Context) error) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a.p.capacity.slot.Lend()
	}
	return func(context.Context) error { return nil }
}
