package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func drainCommand(a *App) *cobra.Command {
	var period time.Duration
	c := &cobra.Command{
		Use: "drain", Short: "Stop the daemon after its running calls have ended", Example: "  toold drain --period 1m", Args: NoArgs,
		Long: `Stops the daemon:

- It accepts no new calls.
- Running calls have the time of --period to end. Then the daemon ends them.
- Calls that wait for a decision stay suspended. The next daemon continues them.

The command returns when the drain has begun. Needs the role admin.`,
	}
	c.Flags().DurationVar(&period, "period", 0, "time that running calls have to end; 0 ends them at once (default: the setting timeouts.drain)")
	c.RunE = a.withClient(func(ctx context.Context, client *client, _ []string) error {
		request := &tooldv1.DrainRequest{}
		if c.Flags().Changed("period") {
			request.Period = durationpb.New(period)
		}
		got, err := client.admin.Drain(ctx, request)
		if err != nil {
			return err
		}
		left := show.Duration(max(got.GetDeadline().AsTime().Sub(a.Now()), 0))
		return a.Print(got, fmt.Sprintf("draining: %d calls are running; the daemon stops within %s\n", got.GetRunning(), left))
	})
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
