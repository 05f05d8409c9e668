package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func countsCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:     "counts",
		Short:   "Count the open calls by status, and the questions by action",
		Example: "  toold counts\n  toold counts -o json",
		Args:    NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.calls.CountCalls(ctx, &tooldv1.CountCallsRequest{})
			if err != nil {
				return err
			}
			return a.Print(got, a.OutView().Counts(got))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
