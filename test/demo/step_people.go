package main

import (
	"context"
	"errors"
	"fmt"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const question = `{"question":"How many replicas may run at night?",` +
	`"schema":{"type":"object","properties":{"replicas":{"type":"integer","maximum":5}},"required":["replicas"]}}`

// askUser sends an invalid answer to a question and then a valid one.
func (s *stage) askUser(ctx context.Context) error {
	a, err := s.toold(ctx, 6, "call", "ask_user", "--json", question)
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return err
	}
	c, err := s.waiting(ctx, "ask_user")
	if err != nil {
		return err
	}
	if c.GetSuspension().GetResponseSchema() == "" {
		return errors.New("the question says nothing of the shape of its answer")
	}
	bad, err := s.decide(ctx, "answer", c.GetSuspension().GetSuspensionId(), "replicas=12")
	if err != nil {
		return err
	}
	if err := bad.is(exitUsage); err != nil {
		return fmt.Errorf("an answer that breaks the schema: %w", err)
	}
	if err := contains("the refusal", bad.stderr, "replicas", "5"); err != nil {
		return err
	}
	still, err := s.waiting(ctx, "ask_user")
	if err != nil {
		return err
	}
	if still.GetSuspension().GetSuspensionId() != c.GetSuspension().GetSuspensionId() || len(still.GetDecisions()) > 0 {
		return fmt.Errorf("the refused answer left its mark: %v", still)
	}
	s.tell.proof("refused with the reason, and the same question is still open")
	a, err = s.decide(ctx, "answer", c.GetSuspension().GetSuspensionId(), "replicas=3")
	if err := errors.Join(err, a.is(0)); err != nil {
		return err
	}
	ended, err := s.over(ctx, c.GetCallId(), succeeded, tooldv1.Executed_EXECUTED_STARTED, 1)
	if err != nil {
		return err
	}
	if data := ended.GetResult().GetData(); data != `{"replicas":3}` {
		return fmt.Errorf("the answer was 3 replicas, the result is %s", data)
	}
	s.tell.proof("the answer is the result of the call: %s", ended.GetResult().GetData())
	return s.nobodyWaits(ctx)
}

// decline declines a command that would have left a file.
func (s *stage) decline(ctx context.Context) error {
	before, err := s.snapshot()
	if err != nil {
		return err
	}
	a, err := s.toold(ctx, 8, "call", "bash", "command=touch declined.txt; rm -rf docs")
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return err
	}
	c, err := s.waiting(ctx, "bash")
	if err != nil {
		return err
	}
	a, err = s.decide(ctx, "decline", c.GetSuspension().GetSuspensionId(), "--reason", "the notes are still needed")
	if err := errors.Join(err, a.is(0)); err != nil {
		return err
	}
	ended, err := s.over(ctx, c.GetCallId(), cancelled, tooldv1.Executed_EXECUTED_NOT_STARTED, 0)
	if err != nil {
		return err
	}
	e := ended.GetResult().GetError()
	if e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_CANCELLED || e.GetReason() != "DECLINED" {
		return fmt.Errorf("the result is %v %s", e.GetCode(), e.GetReason())
	}
	text := modelText(ended.GetResult())
	if err := contains("what the model reads", text, "Declined: the notes are still needed"); err != nil {
		return err
	}
	after, err := s.snapshot()
	if changed := differences(before, after); err != nil || len(changed) > 0 {
		return errors.Join(err, fmt.Errorf("a command that was declined changed %v", changed))
	}
	s.tell.proof("the model reads %q", text)
	s.tell.proof("the command never ran: no attempt on record, and the workspace is as it was")
	return nil
}

func (s *stage) approveEdited(ctx context.Context) error {
	requested, effective := bashArguments("echo requested > requested.txt"), bashArguments("echo effective > effective.txt")
	a, err := s.toold(ctx, 8, "call", "bash", "--json", requested)
	if err := errors.Join(err, a.is(exitSuspended)); err != nil {
		return err
	}
	c, err := s.waiting(ctx, "bash")
	if err != nil {
		return err
	}
	if err := s.approve(ctx, c, "--arguments", effective); err != nil {
		return err
	}
	if err := s.absent("requested.txt"); err != nil {
		return err
	}
	if text := s.file("effective.txt"); text != "effective\n" {
		return fmt.Errorf("the edited command left %q", text)
	}
	s.tell.proof("effective.txt is there and requested.txt is not")
	ended, err := s.over(ctx, c.GetCallId(), succeeded, tooldv1.Executed_EXECUTED_FINISHED, 1)
	if err != nil {
		return err
	}
	if ended.GetRequestedArguments() != requested || ended.GetEffectiveArguments() != effective {
		return fmt.Errorf("the record has requested %s, effective %s", ended.GetRequestedArguments(), ended.GetEffectiveArguments())
	}
	s.tell.proof("on record: requested %s", ended.GetRequestedArguments())
	s.tell.proof("           effective %s", ended.GetEffectiveArguments())
	return nil
}
