package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func releaseCommand(a *App) *cobra.Command {
	request := &tooldv1.ReleaseCallsRequest{}
	c := &cobra.Command{
		Use:   "release CALL… | --run RUN | --thread THREAD | --all",
		Short: "Resume or cancel the held calls of a copied or restored store",
		Long: `When a store was copied or restored, the daemon holds its unfinished calls. It
does not run them, because the daemon of the original store may run them too.

First make sure that no other daemon runs these calls. Then release them. They
continue as after a restart of the daemon. A call that may have run before runs
again only if that is safe. With --end the daemon cancels the calls instead.

Until all held calls are released, each restart of the daemon holds the
unfinished calls again. Needs the role operator.`,
		Example:           "  toold calls --status suspended,running\n  toold release CALL\n  toold release --run r-17 --end --reason 'ran on the old machine'\n  toold release --all",
		ValidArgsFunction: a.completeCalls,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			n := 0
			for _, set := range []bool{len(args) > 0, request.GetAll(), request.GetRunId() != "", request.GetThreadId() != ""} {
				if set {
					n++
				}
			}
			if n != 1 {
				return Usagef("release takes one of CALL, --run, --thread and --all")
			}
			if request.GetReason() != "" && !request.GetEnd() {
				return Usagef("--reason needs --end")
			}
			request.CallIds = args
			got, err := c.admin.ReleaseCalls(ctx, request)
			if err != nil {
				return err
			}
			done := "released"
			if request.GetEnd() {
				done = "ended"
			}
			return a.Print(got, fmt.Sprintf("%d calls %s, %d still held\n", got.GetReleased(), done, got.GetHeld()))
		}),
	}
	f := c.Flags()
	f.BoolVar(&request.All, "all", false, "all held calls")
	f.StringVar(&request.RunId, "run", "", "the held calls of this run")
	f.StringVar(&request.ThreadId, "thread", "", "the held calls of this thread")
	f.BoolVar(&request.End, "end", false, "cancel the calls instead")
	f.StringVar(&request.Reason, "reason", "", "with --end: reason, stored in the records of the calls")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
