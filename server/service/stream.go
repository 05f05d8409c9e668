package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/translate"
)

// errDeadlineNear ends a watch shortly before the client's deadline, so that the client still gets its cursor.
var errDeadlineNear = fmt.Errorf("the deadline is near: %w", context.DeadlineExceeded)

// untilDeadline returns a context that ends shortly before the deadline of ctx. The margin is a tenth of the remaining time, at most 250
// ms.
func untilDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	margin := min(time.Until(deadline)/10, 250*time.Millisecond)
	return context.WithDeadlineCause(ctx, deadline.Add(-margin), errDeadlineNear)
}

// flat caches the Done channel of a context. A watcher needs this channel for each event. Without the cache, each call of Done would go
// through all contexts that ctx wraps.
type flat struct {
	context.Context
	done <-chan struct{}
}

// Done implements [context.Context].
func (f *flat) Done() <-chan struct{} { return f.done }

// ended returns the error with which a watcher's stream ends. If the stream still needs its last frame with the cursor, ended sends it
// first.
func ended(watching, ctx context.Context, w call.Stream, err error, send func(outgoing) error) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case ctx.Err() == nil && watching.Err() != nil:
		return send(outgoing{Frame: translate.Closing(tooldv1.ClosingReason_CLOSING_REASON_DEADLINE, w.Cursor())})
	case ctx.Err() != nil:
		return context.Cause(ctx) // The client has left, or its credential has expired.
	}
	return err
}
