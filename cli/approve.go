package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func approveCommand(a *App) *cobra.Command {
	var f decisionFlags
	var keep rememberFlags
	var edit bool
	var arguments string
	c := &cobra.Command{
		Use:   "approve SUSPENSION|CALL",
		Short: "Approve a suspended call, and follow it",
		Long: `Shows the complete ticket and approves it. The approval contains the digest of
the ticket, so it is valid only for the ticket that you saw. You can shorten the
id if no other ticket begins with the same characters.

With --edit or --arguments you approve other arguments, and the daemon checks
them like those of a new call. With --remember the daemon stores the approval
for later calls; "toold rules" lists these approvals.`,
		Example: `  toold approve 0198c1
  toold approve 0198c1 --edit
  toold approve 0198c1 --remember 2 --for 8h
  toold approve 0198c1 --arguments '{"command":"make test"}'`,
		Args: ExactArgs("a SUSPENSION or CALL"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			if edit && arguments != "" {
				return Usagef("--edit and --arguments exclude each other")
			}
			if keep.option != "" && (edit || arguments != "") {
				return Usagef("--remember applies to the requested arguments; it excludes --edit and --arguments")
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
			remember, err := keep.of(call, a.Now())
			if err != nil {
				return err
			}
			d := &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Arguments: arguments, Remember: remember}
			question := "Approve?"
			if arguments != "" {
				fmt.Fprintf(a.Err, "With these arguments instead (%s):\n%s\n", show.ArgumentsSize(arguments), a.errView().Arguments(arguments))
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
