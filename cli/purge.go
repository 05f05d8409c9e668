package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func purgeCommand(a *App) *cobra.Command {
	request, yes := &tooldv1.PurgeRequest{}, false
	c := &cobra.Command{
		Use:   "purge CALL… | --run RUN | --thread THREAD",
		Short: "Erase the content of calls that have ended",
		Long: `Erases the content of calls that have ended: arguments, events, output, results,
answers and reasons. With a run or thread it also erases the documents and the
remembered answers of that run or thread. You cannot undo a purge.

- When the command ends, no file of the store contains the content.
- The daemon keeps the id, the outcome and the times of the call, and who
  decided.
- Calls that have not ended are refused. "toold cancel" ends them.
- The daemon rewrites the files of the store. Other changes of the store wait
  meanwhile.
- If the command was interrupted, run it again.
- Backups, logs and data that other systems received are not erased.

On a terminal the command asks for confirmation. Without a terminal it needs
--yes. Needs the role operator.`,
		Example:           "  toold purge CALL\n  toold purge --thread t-17 --yes",
		ValidArgsFunction: a.completeCalls,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			what := fmt.Sprintf("%d calls", len(args))
			switch run, thread := request.GetRunId(), request.GetThreadId(); {
			case len(args) > 0 && run == "" && thread == "":
			case len(args) == 0 && run != "" && thread == "":
				what = "run " + show.Line(run)
			case len(args) == 0 && run == "" && thread != "":
				what = "thread " + show.Line(thread)
			default:
				return Usagef("purge takes one of CALL, --run and --thread")
			}
			if err := a.certain("Erase the content of "+what+" permanently?", yes); err != nil {
				return err
			}
			request.CallIds = args
			got, err := c.admin.Purge(ctx, request)
			if err != nil {
				return err
			}
			return a.Print(got, fmt.Sprintf("%d calls purged, %d already had no content\n", got.GetPurged(), got.GetWithoutContent()))
		}),
	}
	f := c.Flags()
	f.StringVar(&request.RunId, "run", "", "the calls of this run, and its documents")
	f.StringVar(&request.ThreadId, "thread", "", "the calls of this thread, its documents and those of its runs")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}

// certain asks on a terminal before an action that cannot be undone. Without a terminal, the command line must contain the confirmation.
func (a *App) certain(question string, yes bool) error {
	if yes {
		return nil
	}
	if !a.InTerminal || !a.ErrTerminal {
		return Usagef("there is no terminal for a confirmation: use --yes to confirm")
	}
	if a.ask(question) {
		return nil
	}
	return codedError{errors.New("nothing was done"), ExitFailed}
}
