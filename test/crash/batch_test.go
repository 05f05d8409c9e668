package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A turn is one batch of calls. The daemon is killed while the batch runs.
type turn struct {
	spec *tooldv1.BatchSpec
	d    *daemon
	c    *client
	left int // number of events that the client still reads before the next kill; negative means no further kill
}

// count counts events and kills the daemon when the client has read enough.
func (u *turn) count(f *tooldv1.Frame) (enough bool) {
	if u.left < 0 {
		return false
	}
	if u.left -= len(f.GetEvents()); u.left < 0 {
		u.d.kill()
		return true
	}
	return false
}

// play sends the batch and approves its suspended calls. It sends the batch again until all calls have ended or the daemon is dead. It
// returns false when the daemon is dead.
func (u *turn) play(t *testing.T) (over bool) {
	for range 10 {
		var done *tooldv1.BatchFinished
		ctx, cancel := as(t.Context(), asked)
		stream, err := u.c.calls.ExecuteBatch(ctx, &tooldv1.ExecuteBatchRequest{Spec: u.spec})
		if err == nil {
			err = read(framed[*tooldv1.ExecuteBatchResponse]{stream}, func(f *tooldv1.Frame) bool {
				done = f.GetBatchFinished()
				return u.count(f)
			})
		}
		cancel()
		switch {
		case u.left < 0 && errors.Is(err, errEnough):
			return false
		case err != nil || done == nil:
			t.Fatalf("batch ended with %v, %v\n%s", done, err, u.d.log)
		case len(done.GetOpen()) == 0:
			return true
		}
		for _, id := range done.GetOpen() {
			if dead := u.approve(t, id); dead {
				return false
			}
		}
	}
	t.Fatalf("the batch does not end\n%s", u.d.log)
	return false
}

func (u *turn) approve(t *testing.T, id string) (dead bool) {
	ctx, cancel := as(t.Context(), operator)
	got, err := u.c.get(ctx, id)
	cancel()
	must(t, err)
	open := got.GetCall().GetSuspension()
	if open == nil {
		return false
	}
	ctx, cancel = as(t.Context(), approver)
	defer cancel()
	stream, err := u.c.resume(ctx, open.GetSuspensionId(), &tooldv1.Decision{
		DecisionId: "decision-of-" + id, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: open.GetDigest(),
	})
	if err == nil {
		err = read(stream, u.count)
	}
	if errors.Is(err, errEnough) {
		return true
	}
	must(t, err)
	return false
}

// TestBatchesOverKills kills the daemon with SIGKILL while batches run, wait and continue. Each batch must complete with one result for
// each call. An approved call must run at most once.
func TestBatchesOverKills(t *testing.T) {
	h, kills := newHome(t), 0
	rng := rand.New(rand.NewPCG(1, 8))
	for n, strategy := range []tooldv1.BatchStrategy{
		tooldv1.BatchStrategy_BATCH_STRATEGY_SEQUENTIAL, tooldv1.BatchStrategy_BATCH_STRATEGY_AUTO, tooldv1.BatchStrategy_BATCH_STRATEGY_PARALLEL,
	} {
		u := &turn{spec: &tooldv1.BatchSpec{BatchId: fmt.Sprintf("batch-over-kills-%d", n), Strategy: strategy}}
		for i, tool := range []string{"grep", "bash", "grep", "bash"} {
			id := fmt.Sprintf("batch-%d-call-of-kills-%d", n, i)
			arguments := jsonText(object{"pattern": "line", "path": texts})
			if tool == "bash" {
				arguments = jsonText(command(original, short)(id))
			}
			u.spec.Calls = append(u.spec.Calls, &tooldv1.CallSpec{Tool: tool, CallId: id, Arguments: arguments, Run: &tooldv1.Run{RunId: "run", ThreadId: "thread"}})
		}
		for life, over := 0, false; !over; life++ {
			d, err := h.start("")
			must(t, err)
			served, err := d.awaitReady()
			if must(t, err); !served {
				t.Fatalf("the daemon did not serve\n%s", d.log)
			}
			c, err := dial(d.address)
			must(t, err)
			u.d, u.c, u.left = d, c, rng.IntN(14)
			if life >= 6 {
				u.left = -1
			}
			if over = u.play(t); over {
				u.check(t, h)
			} else {
				kills++
			}
			c.close()
			d.kill()
		}
	}
	t.Logf("ran: batches: %d kills", kills)
}

// check compares the records with the traces that the calls left.
func (u *turn) check(t *testing.T, h *home) {
	t.Helper()
	for i, spec := range u.spec.GetCalls() {
		ctx, cancel := as(context.Background(), operator)
		got, err := u.c.get(ctx, spec.GetCallId())
		cancel()
		must(t, err)
		c := got.GetCall()
		lines := 0
		if b, err := os.ReadFile(filepath.Join(h.workspace, counts, c.GetCallId())); err == nil {
			lines = strings.Count(string(b), "\n")
		}
		done := c.GetStatus() == tooldv1.CallStatus_CALL_STATUS_SUCCEEDED
		doubt := c.GetResult().GetError().GetCode() == tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT
		if !done && !doubt || lines > 1 || c.GetTool() == "bash" && done && lines != 1 || c.GetBatchPosition() != int32(i+1) {
			t.Errorf("call %d: %v %v, ran %d times, position %d", i, c.GetStatus(), c.GetResult().GetError(), lines, c.GetBatchPosition())
		}
	}
}
