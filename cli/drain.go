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
		Use: "drain", Short: "Make the daemon finish running calls and stop", Example: "  toold drain --period 1m", Args: NoArgs,
		Long: `The daemon takes no new calls, lets running ones end within the period, keeps
what waits for a decision, and stops. The command returns when the drain has
begun.`,
	}
	c.Flags().DurationVar(&period, "period", 0, "how long running calls may take; 0 ends them at once (default: as configured)")
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
		return a.Print(got, fmt.Sprintf("draining: %d calls run, stopped in %s at the latest\n", got.GetRunning(), left))
	})
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
