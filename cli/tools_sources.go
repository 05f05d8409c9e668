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
		Long: `Lists the sources of tools: the built-in tools, MCP servers, workers and other
sources. For each source it shows the state, the last error, and the tools that
the daemon does not offer. Needs one of the roles operator, viewer and admin.`,
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
