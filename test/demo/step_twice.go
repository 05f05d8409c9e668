package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	sameID    = "demo-same-call-0001"
	sameTimes = 8
)

// sameCallTwice sends one call id many times: concurrently, while the call is suspended, and after it has ended. The command counts its
// executions in a file.
func (s *stage) sameCallTwice(ctx context.Context) error {
	args := []string{"call", "bash", "--call-id", sameID, "command=echo ran >> count"}
	if err := s.sendAtOnce(ctx, args); err != nil {
		return err
	}
	c, err := s.waiting(ctx, "bash")
	if err != nil {
		return err
	}
	if c.GetCallId() != sameID {
		return fmt.Errorf("call %s waits in place of %s", c.GetCallId(), sameID)
	}
	if err := errors.Join(untouched(c), s.absent("count")); err != nil {
		return err
	}
	if err := s.approve(ctx, c); err != nil {
		return err
	}
	first, err := s.over(ctx, sameID, succeeded, tooldv1.Executed_EXECUTED_FINISHED, 1)
	if err != nil {
		return err
	}
	again, err := s.toold(ctx, 4, args...)
	if err := errors.Join(err, again.is(0)); err != nil {
		return err
	}
	now, err := s.api.call(ctx, sameID)
	if err != nil {
		return err
	}
	if !proto.Equal(first, now) {
		return errors.New("sending the call again changed its record")
	}
	if n := strings.Count(s.file("count"), "ran\n"); n != 1 {
		return fmt.Errorf("the command ran %d times", n)
	}
	s.tell.proof("sent %d times at once and once more after its end: the command ran once (it counts in a file)", sameTimes)
	return s.sameIDOtherCall(ctx)
}

// sendAtOnce sends the call from many clients at the same time.
func (s *stage) sendAtOnce(ctx context.Context, args []string) error {
	s.tell.command(typed(args) + fmt.Sprintf("   # %d times at the same moment", sameTimes))
	var all sync.WaitGroup
	answers, errs := make([]answer, sameTimes), make([]error, sameTimes)
	for i := range sameTimes {
		all.Go(func() { answers[i], errs[i] = s.quiet(ctx, args...) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.tell.output(answers[0].screen, 6)
	for _, a := range answers {
		if err := a.is(exitSuspended); err != nil {
			return err
		}
	}
	return nil
}

// sameIDOtherCall checks that a different command under the same id is refused and does not run.
func (s *stage) sameIDOtherCall(ctx context.Context) error {
	_, err := s.api.begin(ctx, &tooldv1.CallSpec{Tool: "bash", CallId: sameID, Arguments: bashArguments("echo other >> other")})
	if err == nil {
		return errors.New("another command under the same id was taken")
	}
	if status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("another command under the same id is answered with %v: %w", status.Code(err), err)
	}
	if err := errors.Join(s.nobodyWaits(ctx), s.absent("other")); err != nil {
		return err
	}
	s.tell.proof("another command under the same id is refused: %s", status.Convert(err).Message())
	return nil
}
