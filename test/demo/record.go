package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const (
	suspended = tooldv1.CallStatus_CALL_STATUS_SUSPENDED
	succeeded = tooldv1.CallStatus_CALL_STATUS_SUCCEEDED
	cancelled = tooldv1.CallStatus_CALL_STATUS_CANCELLED
)

// waiting returns the only suspended call, which must be a call of this tool. It returns an error when there is none or more than one.
func (s *stage) waiting(ctx context.Context, tool string) (*tooldv1.Call, error) {
	calls, err := s.api.inbox(ctx)
	if err != nil {
		return nil, err
	}
	if len(calls) != 1 || calls[0].GetTool() != tool {
		var found []string
		for _, c := range calls {
			found = append(found, c.GetTool()+" "+c.GetCallId())
		}
		return nil, fmt.Errorf("the inbox holds %v, one call of %s was due", found, tool)
	}
	c := calls[0]
	if c.GetStatus() != suspended || c.GetSuspension().GetSuspensionId() == "" {
		return nil, fmt.Errorf("call %s waits with status %v and without a question", c.GetCallId(), c.GetStatus())
	}
	return c, nil
}

// untouched returns an error if a suspended call has already started.
func untouched(c *tooldv1.Call) error {
	if n := len(c.GetAttempts()); n != 0 || c.GetStartedAt() != nil {
		return fmt.Errorf("call %s waits for a yes and has %d attempts", c.GetCallId(), n)
	}
	return nil
}

// over reads the record of a call that has ended, and checks how the call ended. It adds the record to the list of records that must never
// change again.
func (s *stage) over(ctx context.Context, id string, status tooldv1.CallStatus, executed tooldv1.Executed, attempts int) (*tooldv1.Call, error) {
	c, err := s.api.call(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.GetStatus() != status || c.GetExecuted() != executed || len(c.GetAttempts()) != attempts || c.GetResult() == nil {
		return nil, fmt.Errorf("call %s ended as %v, %v, with %d attempts; %v, %v, %d were due\n%v",
			id, c.GetStatus(), c.GetExecuted(), len(c.GetAttempts()), status, executed, attempts, c.GetResult())
	}
	s.keep(c)
	return c, nil
}

// inbox shows the inbox and checks that it names the call.
func (s *stage) inbox(ctx context.Context, c *tooldv1.Call) error {
	a, err := s.toold(ctx, 8, "inbox")
	if err := errors.Join(err, a.is(0)); err != nil {
		return err
	}
	return contains("the inbox", a.stdout, c.GetTool(), c.GetSuspension().GetSuspensionId())
}

// ticket shows the whole question and checks that it contains all of these texts.
func (s *stage) ticket(ctx context.Context, c *tooldv1.Call, all ...string) error {
	a, err := s.quiet(ctx, "inbox", c.GetSuspension().GetSuspensionId())
	if err := errors.Join(err, a.is(0)); err != nil {
		return err
	}
	s.tell.command(a.words)
	s.tell.output(a.stdout, 36)
	s.session.add(a.words, a.stdout)
	return contains("the question", a.stdout, all...)
}

// decide answers a question on the command line. It shows the output that follows the question.
func (s *stage) decide(ctx context.Context, args ...string) (answer, error) {
	a, err := s.quiet(ctx, args...)
	if err != nil {
		return a, err
	}
	s.tell.command(a.words)
	for _, outcome := range []string{"\ndecided ", "\ntoold: "} {
		if at := strings.Index(a.screen, outcome); at >= 0 {
			s.tell.printed("(the question)")
			s.tell.output(a.screen[at+1:], 8)
			_, after, _ := strings.Cut("\n"+a.stderr, outcome)
			s.session.add(a.words, "(the question, as above)\n"+outcome[1:]+after+a.stdout)
			return a, nil
		}
	}
	s.tell.output(a.screen, 40)
	return a, nil
}

// approve approves the call and follows it to its end. The call must succeed.
func (s *stage) approve(ctx context.Context, c *tooldv1.Call, more ...string) error {
	a, err := s.decide(ctx, append([]string{"approve", c.GetSuspension().GetSuspensionId()}, more...)...)
	return errors.Join(err, a.is(0))
}

// nobodyWaits checks that the inbox is empty.
func (s *stage) nobodyWaits(ctx context.Context) error {
	calls, err := s.api.inbox(ctx)
	if err == nil && len(calls) > 0 {
		err = fmt.Errorf("call %s still waits", calls[0].GetCallId())
	}
	return err
}

// whole reads the stored log of a call from its first event to its last.
func (s *stage) whole(ctx context.Context, id string) (*tape, error) {
	t := newTape(id, s.api.reader(ctx, id))
	stream, err := s.api.watch(ctx, id, "", false)
	if err != nil {
		return nil, err
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if err := t.take(r.GetFrame()); err != nil {
			return nil, err
		}
		if r.GetFrame().GetCaughtUp() != nil {
			return t, nil
		}
		if t.finished() != nil {
			return t, nil
		}
	}
}

// bashArguments returns the arguments of a bash call as canonical JSON.
func bashArguments(command string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(map[string]string{"command": command}) // Ignore the error: a string can always be encoded.
	return strings.TrimSpace(b.String())
}

// contains returns an error unless text contains all of these.
func contains(what, text string, all ...string) error {
	if i := slices.IndexFunc(all, func(part string) bool { return !strings.Contains(text, part) }); i >= 0 {
		return fmt.Errorf("%s does not say %q:\n%s", what, all[i], text)
	}
	return nil
}

// modelText returns the text of a result that the model reads.
func modelText(r *tooldv1.ToolResult) string {
	return cmp.Or(r.GetModelText(), r.GetMessage(), r.GetData())
}
