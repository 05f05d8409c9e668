package cli

import (
	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func toolsCommand(a *App) *cobra.Command {
	var source, category string
	c := &cobra.Command{
		Use:   "tools [TOOL]",
		Short: "List the tools, or show one",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return Usagef("%s takes one TOOL, or none for the list", c.CommandPath())
			}
			return nil
		},
		Example:           "  toold tools\n  toold tools bash\n  toold tools -o jsonl | jq -r .id",
		ValidArgsFunction: a.completeTools,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			if len(args) == 1 {
				got, err := c.tools.GetTool(ctx, &tooldv1.GetToolRequest{Tool: args[0]})
				if err != nil {
					return err
				}
				return a.Print(got.GetTool(), a.OutView().Tool(got.GetTool()))
			}
			var all []*tooldv1.Descriptor
			request := &tooldv1.ListToolsRequest{Source: source, Category: category}
			for {
				page, err := c.tools.ListTools(ctx, request)
				if err != nil {
					return err
				}
				all = append(all, page.GetTools()...)
				if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
					break
				}
			}
			return printList(a, all, a.OutView().Tools(all))
		}),
	}
	c.Flags().StringVar(&source, "source", "", "only tools of this source, such as builtin")
	c.Flags().StringVar(&category, "category", "", "only tools of this category")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	c.AddCommand(exportCommand(a), toolDiffCommand(a), toolAcceptCommand(a), toolRefuseCommand(a), toolDefinitionsCommand(a), toolUseCommand(a), sourcesCommand(a), retrySourceCommand(a))
	return c
}
