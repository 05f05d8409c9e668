package toold

import (
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// stream is a gRPC stream whose responses contain frames.
type stream[R interface{ GetFrame() *tooldv1.Frame }] interface{ Recv() (R, error) }

// frames returns the frames of a stream, and opens the stream again at the last cursor when it breaks. A frame with events also has the
// cursor after them, so no event comes twice.
func frames[R interface{ GetFrame() *tooldv1.Frame }](
	ctx context.Context, patience time.Duration, cursor string, open func(ctx context.Context, cursor string) (stream[R], error),
) iter.Seq2[*tooldv1.Frame, error] {
	return func(yield func(*tooldv1.Frame, error) bool) {
		p := pauses{patience: patience}
		for {
			err := follow(ctx, &cursor, open, func(f *tooldv1.Frame) bool {
				p = pauses{patience: patience}
				return yield(f, nil)
			})
			switch {
			case err == nil:
				return
			case errors.Is(err, errClosing):
				err = p.wait(ctx)
			default:
				err = p.after(ctx, err)
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// errClosing means that the daemon closed a stream that the client must open again.
var errClosing = errors.New("the stream is closing")

// follow reads one stream. It returns nil when the stream is complete or the consumer stopped reading.
func follow[R interface{ GetFrame() *tooldv1.Frame }](
	ctx context.Context, cursor *string, open func(ctx context.Context, cursor string) (stream[R], error), yield func(*tooldv1.Frame) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx, *cursor)
	if err != nil {
		return err
	}
	closing := false
	for {
		r, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF) && closing:
			return errClosing
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		f := r.GetFrame()
		if f.GetCursor() != "" {
			*cursor = f.GetCursor()
		}
		switch {
		case f.GetClosing() != nil:
			closing = true
		case f.GetHeartbeat() == nil && !yield(f):
			return nil
		}
	}
}

func events(frames iter.Seq2[*tooldv1.Frame, error]) iter.Seq2[*tooldv1.CallEvent, error] {
	return func(yield func(*tooldv1.CallEvent, error) bool) {
		for f, err := range frames {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range f.GetEvents() {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// pauses computes the growing pauses between tries to reach a daemon.
type pauses struct {
	patience time.Duration
	last     time.Duration
	since    time.Time
}

// after waits if err is temporary, and returns any other error.
func (p *pauses) after(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	code := status.Code(err)
	if code != codes.Unavailable && code != codes.DeadlineExceeded && !lagged(err) {
		return err
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if time.Since(p.since) > p.patience {
		return err
	}
	return p.wait(ctx)
}

func (p *pauses) wait(ctx context.Context) error {
	p.last = min(max(2*p.last, 100*time.Millisecond), 5*time.Second)
	timer := time.NewTimer(time.Duration(float64(p.last) * (0.8 + 0.4*rand.Float64()))) //nolint:gosec // jitter, so that clients do not all reconnect at once
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lagged reports whether the daemon ended a watch because the client read too slowly. The client may watch again from its cursor.
func lagged(err error) bool {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() == "WATCHER_LAGGED" {
			return true
		}
	}
	return false
}
