package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func modeCommand(a *App) *cobra.Command {
	var run, thread string
	c := &cobra.Command{
		Use:   "mode MODE --run RUN | --thread THREAD",
		Short: "Choose the permission mode of a run or thread",
		Long: `Chooses the permission mode of a run or thread, from its next call on:

    default       the rules alone
    plan          nothing but what is read-only
    accept_edits  edits of files are not asked about (approvers)
    bypass        nothing is asked that one person could agree to (operators)

and the rule sets that the operator made. No mode beats a deny. To leave a mode
needs what choosing it needs; the mode of a run ends with the run.`,
		Example: "  toold mode plan --run run-17\n  toold mode default --thread thread-4",
		Args:    ExactArgs("a MODE"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			request := &tooldv1.SetPermissionModeRequest{Mode: args[0]}
			switch {
			case (run == "") == (thread == ""):
				return Usagef("name a run or a thread: --run RUN or --thread THREAD")
			case run != "":
				request.Selector = &tooldv1.SetPermissionModeRequest_RunId{RunId: run}
			default:
				request.Selector = &tooldv1.SetPermissionModeRequest_ThreadId{ThreadId: thread}
			}
			got, err := c.calls.SetPermissionMode(ctx, request)
			if err != nil {
				return err
			}
			return a.Print(got, fmt.Sprintf("%s, was %s\n", show.Line(args[0]), show.Line(got.GetPrevious())))
		}),
	}
	c.Flags().StringVar(&run, "run", "", "of this run")
	c.Flags().StringVar(&thread, "thread", "", "of this thread; the mode of a run counts in its place")
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"default", "plan", "accept_edits", "bypass"}, cobra.ShellCompDirectiveNoFileComp)
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
