package cli

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func answerCommand(a *App) *cobra.Command {
	var f decisionFlags
	var text string
	var instead insteadFlags
	c := &cobra.Command{
		Use:   "answer SUSPENSION|CALL [TEXT … | key=value … | --json '…' | -]",
		Short: "Answer a question, and follow the call",
		Long: `Answers the question of a call that waits. The ticket shows which form the
answer must have:

  text       write the words of the text
  a list     write one word for each element
  an object  write key=value, or key:=json for a value in JSON

--json takes the answer as JSON, and - reads this JSON from standard input. When
the answer does not have the form, the daemon refuses it, and the question stays
open.

With --result-instead or --error-instead, you give the result of the call, and
the tool does not run. The ticket shows whether you may do this.`,
		Example: `  toold answer 0198c1 Paris
  toold answer 0198c1 name=Ada age=36
  toold answer 0198c1 --json '{"name":"Ada"}'
  toold answer 0198c1 --result-instead '{"paid":true}'
  toold answer 0198c1 --error-instead 'The account is closed.'`,
		Args: AtLeast("a SUSPENSION or CALL"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			result, err := instead.of(args[1:], text)
			if err != nil {
				return err
			}
			call, err := a.ticket(ctx, c, args[0], &f)
			if err != nil {
				return err
			}
			if result != nil {
				return a.decide(ctx, c, call, &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ResultInstead: result}, &f)
			}
			if s := call.GetSuspension(); s.GetAction() == "approval" && s.GetResponseSchema() == "" {
				return Usagef("this asks for yes or no; use %[1]s approve %[2]s or %[1]s decline %[2]s", a.Program(), s.GetSuspensionId())
			}
			answer, err := a.answer(args[1:], text, call.GetSuspension().GetResponseSchema())
			if err != nil {
				return err
			}
			d := &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Result: answer}
			return a.decide(ctx, c, call, d, &f)
		}),
	}
	c.Flags().StringVar(&text, "json", "", "the answer as JSON text")
	instead.add(c)
	f.add(a, c)
	return c
}

// insteadFlags holds the flags that give a result in the tool's place.
type insteadFlags struct{ data, message, failure string }

func (f *insteadFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.data, "result-instead", "", "use this JSON as the result; the tool does not run")
	c.Flags().StringVar(&f.message, "message-instead", "", "use this text for the model; the tool does not run")
	c.Flags().StringVar(&f.failure, "error-instead", "", "fail the call with this text; the tool does not run")
}

// of returns the result in the tool's place, or nil when no flag gives one. It returns an error when the command also answers the question,
// with words or text.
func (f *insteadFlags) of(words []string, text string) (*tooldv1.ResultInstead, error) {
	switch {
	case *f == insteadFlags{}:
		return nil, nil
	case len(words) > 0 || text != "":
		return nil, Usagef("the flags --result-instead, --message-instead and --error-instead exclude an answer to the question")
	case f.failure != "" && f.message != "":
		return nil, Usagef("--error-instead and --message-instead exclude each other")
	case f.data != "" && !json.Valid([]byte(f.data)):
		return nil, Usagef("--result-instead is not JSON: %s", show.Line(f.data[:min(len(f.data), 60)]))
	}
	return &tooldv1.ResultInstead{Data: f.data, Message: f.message + f.failure, Error: f.failure != ""}, nil
}

func (a *App) answer(words []string, text, schema string) (string, error) {
	switch {
	case text != "" && len(words) > 0:
		return "", Usagef("--json is the whole answer; remove %q", words[0])
	case text == "" && len(words) == 0:
		return "", Usagef("the answer is missing; the ticket describes its form")
	case text == "" && len(words) == 1 && words[0] == "-":
		var err error
		if text, err = a.ReadInput(); err != nil {
			return "", err
		}
	}
	if text == "" {
		return answerOf(words, schema)
	}
	if !json.Valid([]byte(text)) {
		return "", Usagef("the answer is not JSON: %s", show.Line(text[:min(len(text), 60)]))
	}
	return text, nil
}
