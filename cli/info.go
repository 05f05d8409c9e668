package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func infoCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "info", Short: "Show the version, addresses, limits and isolation of the daemon", Example: "  toold info -o json", Args: NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.GetInfo(ctx, &tooldv1.GetInfoRequest{})
			if err != nil {
				return err
			}
			return a.Print(got, a.OutView().Info(got))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
