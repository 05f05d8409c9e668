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
		Long: `Erases what calls were about: arguments, events, output, results, answers and
their reasons; with a run or thread its documents too. It is gone from the
daemon's files when the command ends. What stays says which call it was, how and
when it ended, and who decided. There is no way back.

Calls that have not ended are refused: "toold cancel" ends them. While the files
are written anew everybody who writes waits. A purge that was cut off has to be
asked for again. Backups, logs and what others were told are not reached.

Asks first on a terminal; elsewhere --yes is needed.`,
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
			if err := a.certain("Erase the content of "+what+" for good?", yes); err != nil {
				return err
			}
			request.CallIds = args
			got, err := c.admin.Purge(ctx, request)
			if err != nil {
				return err
			}
			return a.Print(got, fmt.Sprintf("%d calls purged, %d had no content any more\n", got.GetPurged(), got.GetWithoutContent()))
		}),
	}
	f := c.Flags()
	f.StringVar(&request.RunId, "run", "", "the calls of this run, and its documents")
	f.StringVar(&request.ThreadId, "thread", "", "the calls of this thread, its documents and those of its runs")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
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
