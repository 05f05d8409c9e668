package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func sourcesCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "sources", Short: "Show the sources of the tools and their state", Args: NoArgs,
		Example: "  toold tools sources",
		Long: `Lists the sources of tools: what comes with the daemon, and servers that it is
connected to, with what went wrong last and the tools that are not taken.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.ListSources(ctx, &tooldv1.ListSourcesRequest{})
			if err != nil {
				return err
			}
			return printList(a, got.GetSources(), a.OutView().Sources(got.GetSources()))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
