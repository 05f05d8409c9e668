package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func hooksCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "hooks", Short: "List the external hooks and their state", Example: "  toold hooks\n  toold hooks -o jsonl | jq -r .lastError", Args: NoArgs,
		Long: `Lists the programs and services that the daemon asks about calls, in configured
order. For each hook it shows whether the newest question got a valid answer.
Needs one of the roles operator, viewer and admin.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.GetInfo(ctx, &tooldv1.GetInfoRequest{})
			if err != nil {
				return err
			}
			return printList(a, got.GetHooks(), a.OutView().Hooks(got.GetHooks()))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
