package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// frames returns the next frame of a stream, or io.EOF at its end.
type frames func() (*tooldv1.Frame, error)

// framesOf adapts the stream of any method that sends frames.
func framesOf[T any, P interface {
	*T
	GetFrame() *tooldv1.Frame
}](s grpc.ServerStreamingClient[T], err error) (frames, error) {
	if err != nil {
		return nil, err
	}
	return func() (*tooldv1.Frame, error) {
		response, err := s.Recv()
		if err != nil {
			return nil, err
		}
		return P(response).GetFrame(), nil
	}, nil
}

// A follower reads frames. When a stream breaks, it opens a new one at the last cursor.
type follower struct {
	open func(ctx context.Context, cursor string) (frames, error)
	take func(ctx context.Context, f *tooldv1.Frame) error
	// done reports whether everything was read. It is called when a stream ended without an error.
	done func() bool
	say  func(text string)
	// patience is how long to try to reconnect, counted from the last frame. It applies only after the first frame. Zero never reconnects;
	// a negative value never gives up.
	patience time.Duration
	cursor   string // first the cursor to start from, later the last one received

	pause func(ctx context.Context, d time.Duration) // waits before the next try to connect; ctx ends the wait
}

const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// run reads frames until everything was read, and returns nil then.
func (f *follower) run(ctx context.Context) error {
	wait, waited, met := firstPause, time.Duration(0), false
	for {
		got, err := f.stream(ctx)
		if got {
			met, wait, waited = true, firstPause, 0
		}
		switch {
		case err == nil && f.done():
			return nil
		case err != nil && (!met || !broken(err)):
			return err
		case f.patience == 0 || f.patience > 0 && waited >= f.patience:
			return codedError{errors.New("the stream ended before the call did"), ExitUnreachable}
		}
		if !got || err != nil {
			f.say("connection lost; trying again in " + wait.String() + "\n")
			f.pause(ctx, wait)
			waited += wait
			wait = min(2*wait, lastPause)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// stream reads one stream to its end. got reports whether a frame arrived.
func (f *follower) stream(ctx context.Context) (got bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next, err := f.open(ctx, f.cursor)
	if err != nil {
		return false, err
	}
	for {
		frame, err := next()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = true
		if err := f.take(ctx, frame); err != nil {
			return got, err
		}
		if c := frame.GetCursor(); c != "" {
			f.cursor = c // Set the cursor only after take, so that frames that were not shown are requested again.
		}
	}
}

// broken reports whether the connection failed, or the daemon is stopping and may come back.
func broken(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable:
		return true
	case codes.Internal, codes.Unknown:
		st, _ := status.FromError(err)
		reason, _, _ := detailsOf(st)
		return reason == "" && st.Code() == codes.Internal // the error comes from HTTP/2 and not from the daemon
	default:
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
