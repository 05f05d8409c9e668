package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func declineCommand(a *App) *cobra.Command {
	var f decisionFlags
	c := &cobra.Command{
		Use:     "decline SUSPENSION|CALL",
		Short:   "Decline a suspended call; the model reads the reason",
		Example: "  toold decline 0198c1 --reason 'use the staging host'",
		Args:    ExactArgs("a SUSPENSION or CALL"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			call, err := a.ticket(ctx, c, args[0], &f)
			if err != nil {
				return err
			}
			if err := a.confirm("Decline?", &f); err != nil {
				return err
			}
			err = a.decide(ctx, c, call, &tooldv1.Decision{Action: tooldv1.DecisionAction_DECISION_ACTION_CANCEL}, &f)
			if err == ending(ExitCancelled) { //nolint:errorlint // endOf returns the value unwrapped
				return nil // cancelled is the outcome that the user asked for
			}
			return err
		}),
	}
	f.add(a, c)
	return c
}
