package remote_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/remote"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// TestT126NoQuestionOfAFencedDaemon checks that a daemon that may have lost the store asks no service, for any kind of hook. The questions
// of other daemons contain the epoch, the attempt and the idempotency key.
func TestT126NoQuestionOfAFencedDaemon(t *testing.T) {
	taken := errors.New("another daemon has taken over the journal")
	var owner atomic.Bool
	var inputs []*tooldv1.HookInput
	see := func(in *tooldv1.HookInput) {
		if !owner.Load() {
			t.Errorf("asked about %v", in)
		}
		inputs = append(inputs, in)
	}
	s := &service{
		rewrite: func(q *tooldv1.RewriteRequest) (*tooldv1.RewriteResponse, error) {
			see(q.GetInput())
			return &tooldv1.RewriteResponse{}, nil
		},
		gate: func(_ context.Context, q *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
			see(q.GetInput())
			return allowed(), nil
		},
		admit: func(q *tooldv1.AdmitRequest) (*tooldv1.AdmitResponse, error) {
			see(q.GetInput())
			return &tooldv1.AdmitResponse{}, nil
		},
		before: func(q *tooldv1.BeforeRequest) (*tooldv1.BeforeResponse, error) {
			see(q.GetInput())
			return &tooldv1.BeforeResponse{}, nil
		},
		after: func(q *tooldv1.AfterRequest) (*tooldv1.AfterResponse, error) {
			see(q.GetInput())
			return &tooldv1.AfterResponse{}, nil
		},
		filter: func(stream grpc.BidiStreamingServer[tooldv1.FilterRequest, tooldv1.FilterResponse]) error {
			q, err := stream.Recv()
			if err == nil {
				see(q.GetBegin())
				_, err = stream.Recv()
			}
			if err == nil {
				err = stream.Send(&tooldv1.FilterResponse{})
			}
			if _, err := stream.Recv(); err == io.EOF {
				return nil
			}
			return err
		},
	}
	h := newHook(t, serve(t, s), func(c *remote.Config) {
		c.Own = func(context.Context) error {
			if owner.Load() {
				return nil
			}
			return taken
		}
	})
	in := input(t, `{"a":1}`)
	in.Epoch, in.Attempt = 7, 3
	ctx := t.Context()
	ask := map[string]func() error{
		"rewrite": func() error { _, err := h.Rewrite(ctx, in); return err },
		"gate":    func() error { _, err := h.Check(ctx, in); return err },
		"admit":   func() error { _, err := h.Admit(ctx, in); return err },
		"before":  func() error { _, err := h.Before(ctx, in); return err },
		"after":   func() error { _, err := h.After(ctx, in, hook.Outcome{Result: &tool.Result{}}); return err },
		"filter": func() error {
			_, _, err := h.FilterOrFail(in)(call.Event{Type: call.EventProgress, Progress: &tool.Progress{}})
			return err
		},
	}
	for kind, f := range ask {
		if err := f(); !errors.Is(err, taken) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	owner.Store(true)
	for kind, f := range ask {
		inputs = nil
		if err := f(); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		key := (&tool.Call{Namespace: "ns", ID: in.CallID, Arguments: in.Arguments}).IdempotencyKey()
		if kind == "filter" {
			key = ""
		}
		if got := inputs[0]; got.GetEpoch() != 7 || got.GetAttempt() != 3 || got.GetIdempotencyKey() != key {
			t.Errorf("%s carries epoch %d, attempt %d, key %q; want 7, 3, %q", kind, got.GetEpoch(), got.GetAttempt(), got.GetIdempotencyKey(), key)
		}
	}
}
