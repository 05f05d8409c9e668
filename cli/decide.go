package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// decisionFlags holds the flags that all decision commands share.
type decisionFlags struct {
	reason, id, digest      string
	yes, watch, noReconnect bool
}

func (f *decisionFlags) add(a *App, c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "reason, stored with the decision")
	c.Flags().StringVar(&f.id, "decision-id", "", "an id that you choose, 16 to 64 characters; a decision with the same id counts only once")
	c.Flags().StringVar(&f.digest, "digest", "", "decide only if the ticket has this digest")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask for confirmation on a terminal")
	c.Flags().BoolVar(&f.watch, "watch", false, "continue to watch when the call is suspended again")
	c.Flags().BoolVar(&f.noReconnect, "no-reconnect", false, "exit when the connection breaks")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	c.ValidArgsFunction = a.completeWaiting
}

// ticket finds the ticket and prints all of it to standard error. The answer then carries the digest of this ticket, so that it covers
// exactly what was shown.
func (a *App) ticket(ctx context.Context, c *client, name string, f *decisionFlags) (*tooldv1.Call, error) {
	call, err := a.findWaiting(ctx, c, name)
	if coded, ok := errors.AsType[codedError](err); ok && coded.code == ExitNotFound {
		return nil, cmp.Or(closed(ctx, c, name), err)
	}
	if err != nil {
		return nil, err
	}
	s := call.GetSuspension()
	if f.digest != "" && f.digest != s.GetDigest() {
		return nil, codedError{fmt.Errorf("the ticket has changed: its digest is %s; look at it again: %s inbox %s",
			s.GetDigest(), a.Program(), s.GetSuspensionId()), ExitConflict}
	}
	fmt.Fprintln(a.Err, a.errView().Ticket(call, s))
	return call, nil
}

// closed returns an error that says how and by whom a call or suspension was decided. It returns nil when it knows no call or suspension of
// that name.
func closed(ctx context.Context, c *client, name string) error {
	if got, err := c.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: name}); err == nil && got.GetCall().GetCallId() == name {
		text := "the call does not wait for a decision, it is " + show.Status(got.GetCall().GetStatus())
		if all := got.GetCall().GetDecisions(); len(all) > 0 {
			last := all[len(all)-1]
			text = fmt.Sprintf("decided already: %s by %s at %s", strings.TrimPrefix(last.GetAction().String(), "DECISION_ACTION_"),
				last.GetDecidedBy().GetSubject(), last.GetTime().AsTime().Format(time.RFC3339))
		}
		return codedError{errors.New(text), ExitConflict}
	}
	if !strings.HasPrefix(name, "s-") {
		return nil
	}
	// The daemon reports that a suspension is closed only in reply to a decision. The digest of this decision matches no ticket, so a
	// suspension that is still open is not decided.
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	stream, err := c.calls.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: name, Decision: &tooldv1.Decision{
		DecisionId: id.String(), Action: tooldv1.DecisionAction_DECISION_ACTION_CANCEL, ExpectedDigest: strings.Repeat("0", 64),
	}})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) == codes.FailedPrecondition {
		return err
	}
	return nil
}

// decide sends the decision and follows the call.
func (a *App) decide(ctx context.Context, c *client, call *tooldv1.Call, d *tooldv1.Decision, f *decisionFlags) error {
	s := call.GetSuspension()
	d.Reason, d.DecisionId, d.ExpectedDigest = f.reason, f.id, s.GetDigest()
	if d.DecisionId == "" { // created once, so that a repeat after a broken connection is the same decision
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		d.DecisionId = id.String()
	}
	request := &tooldv1.ResumeToolRequest{SuspensionId: s.GetSuspensionId(), CallId: call.GetCallId(), Decision: d, WaitForDecision: f.watch}
	return followCall(ctx, a, c, following{id: call.GetCallId(), throughDecisions: f.watch, noReconnect: f.noReconnect}, func(ctx context.Context, cursor string) (frames, error) {
		request.Cursor = cursor
		return framesOf(c.calls.ResumeTool(ctx, request))
	})
}

// confirm asks for confirmation on a terminal. Elsewhere it does nothing, because the command itself is the answer.
func (a *App) confirm(question string, f *decisionFlags) error {
	if f.yes || !a.InTerminal || !a.ErrTerminal {
		return nil
	}
	if a.ask(question) {
		return nil
	}
	return codedError{fmt.Errorf("nothing was decided"), ExitFailed}
}

// ask puts a yes-or-no question to the user at the terminal.
func (a *App) ask(question string) bool {
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.In).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
