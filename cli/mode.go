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
		Short: "Set the permission mode of a run or thread",
		Long: `Sets the permission mode of a run or thread. The mode applies from the next
call:

  default       only the rules decide
  plan          only read-only calls are allowed
  accept_edits  edits of files need no approval (approvers, operators)
  bypass        calls that one person could approve need no approval (operators)

The rule file can define more modes. No mode allows a call that a rule denies.
To leave a mode you need a role that may choose it. The mode of a run ends with
the run.`,
		Example: "  toold mode plan --run run-17\n  toold mode default --thread thread-4",
		Args:    ExactArgs("a MODE"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			request := &tooldv1.SetPermissionModeRequest{Mode: args[0]}
			switch {
			case (run == "") == (thread == ""):
				return Usagef("give a run or a thread: --run RUN or --thread THREAD")
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
	c.Flags().StringVar(&run, "run", "", "the run that gets the mode")
	c.Flags().StringVar(&thread, "thread", "", "the thread that gets the mode; a mode of the run replaces it, except plan")
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"default", "plan", "accept_edits", "bypass"}, cobra.ShellCompDirectiveNoFileComp)
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
