package worker

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestClockAhead checks a worker whose clock is ahead of the daemon's. The worker must not end a call early, because only the daemon
// enforces the time limit.
func TestClockAhead(t *testing.T) {
	w := New(Config{})
	ended := make(chan error, 1)
	w.tools["t"] = &entry{run: func(ctx context.Context, _ *Call) (*tooldv1.WorkerResult, error) {
		ended <- ctx.Err()
		return &tooldv1.WorkerResult{}, nil
	}}
	w.begin(&tooldv1.WorkerStart{LeaseId: "l", Kind: tooldv1.WorkKind_WORK_KIND_EXECUTE, Call: &tooldv1.WorkerCall{
		CallId: "c", Tool: "t", Deadline: timestamppb.New(time.Now().Add(-24 * time.Hour)),
	}})
	if err := <-ended; err != nil {
		t.Errorf("a call with time left began with %v", err)
	}
	w.running.Wait()
}
