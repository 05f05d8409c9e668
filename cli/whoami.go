package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func whoAmICommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:     "whoami [SUSPENSION|CALL ...]",
		Short:   "Show who you are, and what you may do with suspended calls",
		Example: "  toold whoami\n  toold whoami 0198c1",
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			request := &tooldv1.WhoAmIRequest{}
			for _, name := range args {
				call, err := a.findWaiting(ctx, c, name)
				if err != nil {
					return err
				}
				request.SuspensionIds = append(request.SuspensionIds, call.GetSuspension().GetSuspensionId())
			}
			got, err := c.calls.WhoAmI(ctx, request)
			if err != nil {
				return err
			}
			return a.Print(got, a.OutView().WhoAmI(got))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	c.ValidArgsFunction = a.completeWaiting
	return c
}
