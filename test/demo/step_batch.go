package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// The calls that a model requests in one turn. The second needs an approval.
const (
	turnFile = "turn.json"
	turnID   = "demo-turn-000001"
	turn     = `{"tool":"grep","call_id":"demo-turn-1-grep","arguments":{"pattern":"timeout","path":"config"}}
{"tool":"edit","call_id":"demo-turn-2-edit","arguments":{"path":"config/app.yaml","old_text":"timeout: 30s","new_text":"timeout: 45s"}}
{"tool":"read","call_id":"demo-turn-3-read","arguments":{"path":"docs/notes.md"}}
`
)

var turnCalls = []string{"demo-turn-1-grep", "demo-turn-2-edit", "demo-turn-3-read"}

// batchAcrossCrash runs the calls of one turn; one is suspended while the others finish. Then it kills the daemon with SIGKILL, restarts
// it, and approves. The turn must be complete, and no call may have run twice.
func (s *stage) batchAcrossCrash(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(s.dir, turnFile), []byte(turn), 0o600); err != nil {
		return err
	}
	s.tell.command("cat " + turnFile)
	s.tell.output(turn, 3)
	s.session.add("cat "+turnFile, turn)
	before, err := s.snapshot()
	if err != nil {
		return err
	}
	a, err := s.toold(ctx, 20, "batch", turnFile, "--batch-id", turnID)
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return err
	}
	if err := s.turnIs(ctx, succeeded, suspended, succeeded); err != nil {
		return err
	}
	asked, err := s.waiting(ctx, "edit")
	if err := errors.Join(err, untouched(asked)); err != nil {
		return err
	}
	for _, id := range []string{turnCalls[0], turnCalls[2]} {
		if _, err := s.over(ctx, id, succeeded, tooldv1.Executed_EXECUTED_FINISHED, 1); err != nil {
			return err
		}
	}
	s.tell.proof("two calls have ended, one waits, and no file has changed")
	if err := s.dieAndReturn(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.turnIs(ctx, succeeded, suspended, succeeded), s.approve(ctx, asked)); err != nil {
		return fmt.Errorf("after the crash: %w", err)
	}
	if a, err = s.toold(ctx, 20, "batch", turnFile, "--batch-id", turnID); err != nil {
		return err
	}
	if err := errors.Join(a.is(0), s.turnIs(ctx, succeeded, succeeded, succeeded), s.unchanged(ctx)); err != nil {
		return err
	}
	after, err := s.snapshot()
	if err != nil {
		return err
	}
	want := strings.Replace(string(before[edited]), "timeout: 30s", "timeout: 45s", 1)
	if changed := differences(before, after); len(changed) != 1 || string(after[edited]) != want {
		return fmt.Errorf("%v changed, and %s is now\n%s", changed, edited, after[edited])
	}
	if _, err := s.over(ctx, turnCalls[1], succeeded, tooldv1.Executed_EXECUTED_FINISHED, 1); err != nil {
		return err
	}
	s.tell.proof("the turn is complete: three results in the order of the model, one attempt each")
	return nil
}

// turnIs checks the statuses of the calls of the turn, in order.
func (s *stage) turnIs(ctx context.Context, want ...tooldv1.CallStatus) error {
	list, err := s.api.calls.ListCalls(ctx, &tooldv1.ListCallsRequest{BatchId: turnID, Order: tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST})
	if err != nil {
		return err
	}
	if len(list.GetCalls()) != len(want) {
		return fmt.Errorf("the turn has %d calls", len(list.GetCalls()))
	}
	for i, c := range list.GetCalls() {
		if c.GetCallId() != turnCalls[i] || c.GetStatus() != want[i] {
			return fmt.Errorf("call %d of the turn is %s, %v; %s, %v was due", i+1, c.GetCallId(), c.GetStatus(), turnCalls[i], want[i])
		}
	}
	return nil
}
