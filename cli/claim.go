package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func claimCommand(a *App) *cobra.Command {
	var lasts time.Duration
	request := &tooldv1.ClaimSuspensionRequest{}
	c := &cobra.Command{
		Use:   "claim SUSPENSION|CALL",
		Short: "Show others that you look at a suspended call, or hand it over",
		Long: `Claims a suspended call for 5 minutes, or for the time of --for. Other people
see in the inbox that you look at the call. Claim the call again to extend the
time.

A claim does not prevent decisions of other people. The first decision counts,
from any approver.

With --to, you hand the call over to another person, for 1 hour or for the time
of --for. That person sees this in the inbox.`,
		Example: "  toold claim 0198c1\n  toold claim 0198c1 --for 30m\n  toold claim 0198c1 --to tam\n  toold claim 0198c1 --release",
		Args:    ExactArgs("a SUSPENSION or CALL"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			call, err := a.findWaiting(ctx, c, args[0])
			if err != nil {
				return err
			}
			request.SuspensionId = call.GetSuspension().GetSuspensionId()
			if lasts != 0 {
				request.Duration = durationpb.New(lasts)
			}
			got, err := c.calls.ClaimSuspension(ctx, request)
			if err != nil {
				return err
			}
			return a.Print(got, a.OutView().Claim(got.GetClaim()))
		}),
	}
	c.Flags().DurationVar(&lasts, "for", 0, "how long the claim lasts, 10s to 1h (default 5m, with --to 1h)")
	c.Flags().BoolVar(&request.Release, "release", false, "end your claim")
	c.Flags().StringVar(&request.HandOverTo, "to", "", "hand the call over to this person")
	c.Flags().BoolVar(&request.TakeOver, "take-over", false, "replace the claim of another person (operators)")
	c.MarkFlagsMutuallyExclusive("release", "for")
	c.MarkFlagsMutuallyExclusive("release", "take-over")
	c.MarkFlagsMutuallyExclusive("release", "to")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	c.ValidArgsFunction = a.completeWaiting
	return c
}
