package daemon

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
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

// decisionFlags are common to all answers.
type decisionFlags struct {
	reason, id, digest      string
	yes, watch, noReconnect bool
}

func (f *decisionFlags) add(a *app, c *cobra.Command) {
	c.Flags().StringVar(&f.reason, "reason", "", "for the record")
	c.Flags().StringVar(&f.id, "decision-id", "", "16 to 64 characters of your own; the same again changes nothing")
	c.Flags().StringVar(&f.digest, "digest", "", "refuse when the ticket has another digest than this one, that you saw")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask again on a terminal")
	c.Flags().BoolVar(&f.watch, "watch", false, "stay when the call has to wait again")
	c.Flags().BoolVar(&f.noReconnect, "no-reconnect", false, "give up when the connection breaks")
	a.outputFlag(c, formTable, formJSON, formJSONL)
	c.ValidArgsFunction = a.completeWaiting
}

// ticket finds the ticket and shows it whole, on standard error: what is answered is what was shown, and its digest goes
// with the answer.
func (a *app) ticket(ctx context.Context, c *client, name string, f *decisionFlags) (*tooldv1.Call, error) {
	call, err := a.findWaiting(ctx, c, name)
	if coded, ok := errors.AsType[codedError](err); ok && coded.code == exitNotFound {
		return nil, cmp.Or(closed(ctx, c, name), err)
	}
	if err != nil {
		return nil, err
	}
	s := call.GetSuspension()
	if f.digest != "" && f.digest != s.GetDigest() {
		return nil, codedError{fmt.Errorf("the ticket is another one than you saw: its digest is %s; look at it again: %s inbox %s",
			s.GetDigest(), a.program(), s.GetSuspensionId()), exitConflict}
	}
	fmt.Fprintln(a.err, a.errView().Ticket(call, s))
	return call, nil
}

// closed says how what does not wait any more was decided, and by whom; nil when there is nothing of that name.
func closed(ctx context.Context, c *client, name string) error {
	if got, err := c.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: name}); err == nil && got.GetCall().GetCallId() == name {
		text := "the call does not wait for a decision, it is " + show.Status(got.GetCall().GetStatus())
		if all := got.GetCall().GetDecisions(); len(all) > 0 {
			last := all[len(all)-1]
			text = fmt.Sprintf("decided already: %s by %s at %s", strings.TrimPrefix(last.GetAction().String(), "DECISION_ACTION_"),
				last.GetDecidedBy().GetSubject(), last.GetTime().AsTime().Format(time.RFC3339))
		}
		return codedError{errors.New(text), exitConflict}
	}
	if !strings.HasPrefix(name, "s-") {
		return nil
	}
	// Only an answer makes the daemon tell of a suspension that is closed. No ticket has this digest, so that an open one
	// would stay as it is.
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

// decide sends the answer and follows the call.
func (a *app) decide(ctx context.Context, c *client, call *tooldv1.Call, d *tooldv1.Decision, f *decisionFlags) error {
	s := call.GetSuspension()
	d.Reason, d.DecisionId, d.ExpectedDigest = f.reason, f.id, s.GetDigest()
	if d.DecisionId == "" { // made once: a repeat after a broken connection is the same decision
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		d.DecisionId = id.String()
	}
	request := &tooldv1.ResumeToolRequest{SuspensionId: s.GetSuspensionId(), CallId: call.GetCallId(), Decision: d, WaitForDecision: f.watch}
	return a.followCall(ctx, c, following{id: call.GetCallId(), throughDecisions: f.watch, noReconnect: f.noReconnect}, func(ctx context.Context, cursor string) (frames, error) {
		request.Cursor = cursor
		return framesOf(c.calls.ResumeTool(ctx, request))
	})
}

// confirm asks on a terminal; elsewhere the command line was the answer.
func (a *app) confirm(question string, f *decisionFlags) error {
	if f.yes || !a.inTerminal || !a.errTerminal {
		return nil
	}
	if a.ask(question) {
		return nil
	}
	return codedError{fmt.Errorf("nothing was decided"), exitFailed}
}

// ask puts a question to whoever sits at the terminal.
func (a *app) ask(question string) bool {
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

func (a *app) approveCommand() *cobra.Command {
	var f decisionFlags
	var keep rememberFlags
	var edit bool
	var arguments string
	c := &cobra.Command{
		Use:   "approve SUSPENSION|CALL",
		Short: "Say yes to a call that waits, and follow it",
		Long: `Shows the ticket, with all that will run, and approves it. The answer counts for
exactly what was shown: it carries the ticket's digest. A beginning of an id is
enough when no other ticket has it. --edit and --arguments approve other
arguments; the call is checked again. --remember keeps the yes for later calls;
"toold rules" lists what is kept.`,
		Example: `  toold approve 0198c1
  toold approve 0198c1 --edit
  toold approve 0198c1 --remember 2 --for 8h
  toold approve 0198c1 --arguments '{"command":"make test"}'`,
		Args: exactArgs("a SUSPENSION or CALL"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			if edit && arguments != "" {
				return usagef("--edit and --arguments exclude each other")
			}
			if keep.option != "" && (edit || arguments != "") {
				return usagef("--remember keeps what was asked about; it excludes --edit and --arguments")
			}
			call, err := a.ticket(ctx, c, args[0], &f)
			if err != nil {
				return err
			}
			pending := call.GetSuspension().GetPending().GetArguments()
			if edit {
				if arguments, err = a.edit(ctx, pending); err != nil {
					return err
				}
			}
			remember, err := keep.of(call, a.now())
			if err != nil {
				return err
			}
			d := &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Arguments: arguments, Remember: remember}
			question := "Approve?"
			if arguments != "" {
				fmt.Fprintf(a.err, "With these arguments instead (%s):\n%s\n", show.ArgumentsSize(arguments), a.errView().Arguments(arguments))
				question = "Approve with these arguments?"
			}
			if err := a.confirm(question, &f); err != nil {
				return err
			}
			return a.decide(ctx, c, call, d, &f)
		}),
	}
	c.Flags().BoolVar(&edit, "edit", false, "edit the arguments in $VISUAL or $EDITOR first")
	c.Flags().StringVar(&arguments, "arguments", "", "approve with these arguments instead, as JSON")
	keep.add(c)
	f.add(a, c)
	return c
}

func (a *app) declineCommand() *cobra.Command {
	var f decisionFlags
	c := &cobra.Command{
		Use:     "decline SUSPENSION|CALL",
		Short:   "Say no to a call that waits; the model reads the reason",
		Example: "  toold decline 0198c1 --reason 'use the staging host'",
		Args:    exactArgs("a SUSPENSION or CALL"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			call, err := a.ticket(ctx, c, args[0], &f)
			if err != nil {
				return err
			}
			if err := a.confirm("Decline?", &f); err != nil {
				return err
			}
			err = a.decide(ctx, c, call, &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_CANCEL}, &f)
			if err == ending(exitCancelled) { //nolint:errorlint // endOf returns it bare
				return nil // that is what was wanted
			}
			return err
		}),
	}
	f.add(a, c)
	return c
}

func (a *app) answerCommand() *cobra.Command {
	var f decisionFlags
	var text string
	c := &cobra.Command{
		Use:   "answer SUSPENSION|CALL [TEXT … | key=value … | --json '…' | -]",
		Short: "Answer a question, and follow the call",
		Long: `Answers the question of a call that waits. The ticket says what shape the answer
has: for text the words as they are, for a list one word for each element, for
an object key=value or key:=json. --json takes any JSON, - reads it from
standard input. An answer that does not fit is refused, and the question stays
open.`,
		Example: `  toold answer 0198c1 Paris
  toold answer 0198c1 name=Ada age=36
  toold answer 0198c1 --json '{"name":"Ada"}'`,
		Args: atLeast("a SUSPENSION or CALL"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			call, err := a.ticket(ctx, c, args[0], &f)
			if err != nil {
				return err
			}
			if s := call.GetSuspension(); s.GetAction() == "approval" && s.GetResponseSchema() == "" {
				return usagef("this asks for yes or no; use %[1]s approve %[2]s or %[1]s decline %[2]s", a.program(), s.GetSuspensionId())
			}
			result, err := a.answer(args[1:], text, call.GetSuspension().GetResponseSchema())
			if err != nil {
				return err
			}
			d := &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Result: result}
			return a.decide(ctx, c, call, d, &f)
		}),
	}
	c.Flags().StringVar(&text, "json", "", "the answer as JSON text")
	f.add(a, c)
	return c
}

func (a *app) answer(words []string, text, schema string) (string, error) {
	switch {
	case text != "" && len(words) > 0:
		return "", usagef("--json is the whole answer; %q cannot stand beside it", words[0])
	case text == "" && len(words) == 0:
		return "", usagef("the answer is missing; the ticket says what shape it has")
	case text == "" && len(words) == 1 && words[0] == "-":
		var err error
		if text, err = a.readInput(); err != nil {
			return "", err
		}
	}
	if text == "" {
		return answerOf(words, schema)
	}
	if !json.Valid([]byte(text)) {
		return "", usagef("the answer is not JSON: %s", show.Line(text[:min(len(text), 60)]))
	}
	return text, nil
}
