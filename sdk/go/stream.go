package toold

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// stream is a gRPC stream whose responses contain frames.
type stream[R interface{ GetFrame() *tooldv1.Frame }] interface{ Recv() (R, error) }

// frames returns the frames of a stream, and opens the stream again at the last cursor when it breaks. A frame with events also has the
// cursor after them, so no event comes twice.
func frames[R interface{ GetFrame() *tooldv1.Frame }](
	ctx context.Context, patience patience, cursor string, open func(ctx context.Context, cursor string) (stream[R], error),
) iter.Seq2[*tooldv1.Frame, error] {
	return func(yield func(*tooldv1.Frame, error) bool) {
		p := pauses{patience: patience}
		for {
			err := follow(ctx, cursor, open, func(f *tooldv1.Frame) bool {
				heartbeat := f.GetHeartbeat() != nil
				if heartbeat || f.GetCursor() != "" && f.GetCursor() != cursor {
					p = pauses{patience: patience} // Only a heartbeat or a new cursor proves progress. Each new stream sends its other frames again.
				}
				cursor = cmp.Or(f.GetCursor(), cursor)
				return heartbeat || f.GetClosing() != nil || yield(f, nil)
			})
			switch {
			case err == nil:
				return
			case errors.Is(err, errClosing):
				err = pause(ctx, p.next(), 0.8, 1.2)
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

// follow passes the frames of one stream to read. It returns nil when the stream is complete or read returned false.
func follow[R interface{ GetFrame() *tooldv1.Frame }](
	ctx context.Context, cursor string, open func(ctx context.Context, cursor string) (stream[R], error), read func(*tooldv1.Frame) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx, cursor)
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
		closing = closing || r.GetFrame().GetClosing() != nil
		if !read(r.GetFrame()) {
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

// patience says which errors of a request are temporary.
type patience struct {
	time   time.Duration // how long to try
	renews bool          // the next request may have a new token
}

func (p patience) temporary(e *Error) bool {
	return e.RetryAfter != 0 || e.Code == codes.Unavailable || e.Code == codes.DeadlineExceeded || p.renews && e.Reason == ReasonTokenExpired
}

// pauses computes the growing pauses between tries to reach a daemon.
type pauses struct {
	patience patience
	last     time.Duration
	since    time.Time
}

// again sends a request until it succeeds or its error is not temporary. The request must be safe to repeat.
func again[R any](ctx context.Context, patience patience, request func() (R, error)) (R, error) {
	p := pauses{patience: patience}
	for {
		r, err := request()
		if err == nil {
			return r, nil
		}
		if err := p.after(ctx, err); err != nil {
			return r, err
		}
	}
}

// after waits if err is temporary and the pause ends within the patience. It returns any other error. The daemon's RetryInfo takes
// precedence over the pauses of p.
func (p *pauses) after(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var e *Error
	if !errors.As(err, &e) || !p.patience.temporary(e) {
		return err
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	wait, least := e.RetryAfter, 1.0
	if wait <= 0 {
		wait, least = p.next(), 0.8
	}
	if wait > p.patience.time-time.Since(p.since) {
		return err
	}
	return pause(ctx, wait, least, 1.2)
}

func (p *pauses) next() time.Duration {
	p.last = min(max(2*p.last, 100*time.Millisecond), 5*time.Second)
	return p.last
}

// pause waits for d, times a random factor between least and most.
func pause(ctx context.Context, d time.Duration, least, most float64) error {
	timer := time.NewTimer(time.Duration(float64(d) * (least + (most-least)*rand.Float64()))) //nolint:gosec // jitter, so that clients do not all reconnect at once
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
