package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	edited = "config/app.yaml"
	oldRow = "replicas: 2"
	newRow = "replicas: 5"
)

// editAcrossCrash suspends an edit, kills the daemon with SIGKILL, restarts it, and approves. Only one line of one file may change, and
// only after the approval.
func (s *stage) editAcrossCrash(ctx context.Context) error {
	before, err := s.snapshot()
	if err != nil {
		return err
	}
	a, err := s.toold(ctx, 6, "call", "edit", "--json", fmt.Sprintf(`{"path":%q,"old_text":%q,"new_text":%q}`, edited, oldRow, newRow))
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return err
	}
	asked, err := s.waiting(ctx, "edit")
	if err != nil {
		return err
	}
	if err := errors.Join(untouched(asked), s.ticket(ctx, asked, "-"+oldRow, "+"+newRow)); err != nil {
		return err
	}
	if err := s.dieAndReturn(ctx); err != nil {
		return err
	}
	now, err := s.waiting(ctx, "edit")
	if err != nil {
		return fmt.Errorf("after the crash: %w", err)
	}
	if !proto.Equal(asked.GetSuspension(), now.GetSuspension()) || now.GetCallId() != asked.GetCallId() {
		return fmt.Errorf("after the crash another question waits:\n  %v\n  %v", asked, now)
	}
	if err := s.inbox(ctx, asked); err != nil {
		return err
	}
	after, err := s.snapshot()
	if changed := differences(before, after); err != nil || len(changed) > 0 {
		return errors.Join(err, fmt.Errorf("%v changed before the approval", changed))
	}
	if err := s.unchanged(ctx); err != nil {
		return fmt.Errorf("after the crash: %w", err)
	}
	s.tell.proof("the same question waits in the inbox, no file has changed, and what had ended is on record as before")
	return s.editApproved(ctx, now, before)
}

// dieAndReturn kills the daemon, checks that the address no longer answers, and starts a daemon on the same store.
func (s *stage) dieAndReturn(ctx context.Context) error {
	if err := s.crash(); err != nil {
		return err
	}
	a, err := s.toold(ctx, 3, "inbox")
	if err != nil {
		return err
	}
	if err := a.is(exitUnreachable); err != nil {
		return fmt.Errorf("the daemon is dead: %w", err)
	}
	return s.open(ctx)
}

func (s *stage) editApproved(ctx context.Context, c *tooldv1.Call, before map[string][]byte) error {
	if err := s.approve(ctx, c); err != nil {
		return err
	}
	after, err := s.snapshot()
	if err != nil {
		return err
	}
	want := strings.Replace(string(before[edited]), oldRow, newRow, 1)
	if changed := differences(before, after); len(changed) != 1 || string(after[edited]) != want {
		return fmt.Errorf("%v changed, and %s is now\n%s", changed, edited, after[edited])
	}
	ended, err := s.over(ctx, c.GetCallId(), succeeded, tooldv1.Executed_EXECUTED_FINISHED, 1)
	if err != nil {
		return err
	}
	d := ended.GetDecisions()
	switch {
	case len(d) != 1 || d[0].GetSuspensionId() != c.GetSuspension().GetSuspensionId() || d[0].GetDecidedBy().GetSubject() == "":
		return fmt.Errorf("the record does not have the one decision and who made it: %v", d)
	case ended.GetAttempts()[0].GetEpoch() != s.epoch:
		return fmt.Errorf("the edit ran in epoch %d, not in %d, after the start", ended.GetAttempts()[0].GetEpoch(), s.epoch)
	}
	s.tell.proof("%s changed in this one line and no other file did", edited)
	s.tell.proof("the result is stored, with 1 attempt, after the restart, and a decision of %q", d[0].GetDecidedBy().GetSubject())
	return nil
}
