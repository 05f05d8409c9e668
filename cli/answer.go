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
		Args: AtLeast("a SUSPENSION or CALL"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			call, err := a.ticket(ctx, c, args[0], &f)
			if err != nil {
				return err
			}
			if s := call.GetSuspension(); s.GetAction() == "approval" && s.GetResponseSchema() == "" {
				return Usagef("this asks for yes or no; use %[1]s approve %[2]s or %[1]s decline %[2]s", a.Program(), s.GetSuspensionId())
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
