package lifecycle

import "context"

type attemptKey struct{}

// Value implements [context.Context]. [LendSlot] uses it to find the attempt that belongs to a context.
func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// LendSlot lends the slot of a call while its tool waits for nested calls, which may need the slot. ctx is the context that the tool received.
// The tool must call reclaim once before it continues. reclaim waits for a slot behind other calls, and fails when its ctx is done. For a
// context that does not belong to a call, LendSlot does nothing.
func LendSlot(ctx context.Context) (reclaim func(ctx context.Context) error) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		return a.p.capacity.slot.Lend()
	}
	return func(context.Context) error { return nil }
}
