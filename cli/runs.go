package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func runsCommand(a *App) *cobra.Command {
	c := &cobra.Command{Use: "runs", Short: "Show or end a run", Example: "  toold runs show r-17", Args: NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	show := &cobra.Command{
		Use: "show RUN", Short: "Show the state of a run", Example: "  toold runs show r-17", Args: ExactArgs("a RUN"), ValidArgsFunction: a.completeRuns,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.GetRun(ctx, &tooldv1.GetRunRequest{RunId: args[0]})
			if err != nil {
				return err
			}
			return a.Print(got.GetRun(), a.OutView().Run(got.GetRun()))
		}),
	}
	a.OutputFlag(show, FormTable, FormJSON, FormJSONL)
	var reason, successor string
	end := &cobra.Command{
		Use: "end RUN", Short: "End a run: cancel its open calls and remove a block", Example: "  toold runs end r-17 --reason 'user left'", Args: ExactArgs("a RUN"), ValidArgsFunction: a.completeRuns,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			got, err := c.calls.EndRun(ctx, &tooldv1.EndRunRequest{RunId: args[0], Reason: reason, SupersededByRunId: successor})
			if err != nil {
				return err
			}
			text := a.OutView().Run(got.GetRun())
			for _, id := range got.GetCancelledCallIds() {
				text += "cancels " + id + "\n"
			}
			return a.Print(got, text)
		}),
	}
	end.Flags().StringVar(&reason, "reason", "", "for the record")
	end.Flags().StringVar(&successor, "superseded-by", "", "run of the new turn that takes its place")
	a.OutputFlag(end, FormTable, FormJSON, FormJSONL)
	c.AddCommand(show, end)
	return c
}
