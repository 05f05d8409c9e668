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
		Short: "Resume or cancel the calls of a store that was copied or restored",
		Long: `The unfinished calls of a store that was copied or restored are held: nothing
carries them on, because the original may have done so. Make sure that it does
not, then release them: they go on as after a start of the daemon. What may have
run is not run again unless that is safe. With --end they are cancelled instead.

When nothing is held any more the store is the daemon's own; until then a
restart holds unfinished calls anew.`,
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
				return Usagef("--reason goes with --end")
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
	f.BoolVar(&request.All, "all", false, "all that are held")
	f.StringVar(&request.RunId, "run", "", "those of this run")
	f.StringVar(&request.ThreadId, "thread", "", "those of this thread")
	f.BoolVar(&request.End, "end", false, "cancel them instead")
	f.StringVar(&request.Reason, "reason", "", "for the record, with --end")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
