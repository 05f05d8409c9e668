package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func toolDefinitionsCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "definitions TOOL", Short: "List the definitions of a tool that were trusted or refused", Args: ExactArgs("a TOOL"),
		Example: "  toold tools definitions weather\n  toold tools definitions weather -o jsonl | jq .definition.description",
		Long: `Lists the definitions of a tool, newest first. For each definition it shows the
time, and who accepted or refused it, or that it was the first one. Definitions
of built-in tools are not stored.`,
		ValidArgsFunction: a.completeTools,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			var all []*tooldv1.JudgedDefinition
			request := &tooldv1.ListDefinitionsRequest{Tool: args[0]}
			for {
				page, err := c.admin.ListDefinitions(ctx, request)
				if err != nil {
					return err
				}
				all = append(all, page.GetDefinitions()...)
				if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
					return printList(a, all, a.OutView().Definitions(all))
				}
			}
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func toolUseCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "use", Short: "Count the newest calls of each tool", Args: NoArgs,
		Example: "  toold tools use",
		Long: `Counts, for each tool, its calls and its failed calls among the newest 2,000
calls that you may see.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.tools.CountToolCalls(ctx, &tooldv1.CountToolCallsRequest{})
			if err != nil {
				return err
			}
			return a.Print(got, a.OutView().ToolCalls(got))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
