package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// quarantined returns the tools whose definitions wait for acceptance. A non-empty id selects one tool.
func quarantined(ctx context.Context, c *client, id string) ([]*tooldv1.QuarantinedTool, error) {
	var all []*tooldv1.QuarantinedTool
	request := &tooldv1.ListQuarantinedToolsRequest{Tool: id}
	for {
		page, err := c.admin.ListQuarantinedTools(ctx, request)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetTools()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			break
		}
	}
	if id != "" && len(all) == 0 {
		return nil, codedError{fmt.Errorf("no definition of %s is in quarantine", show.Line(id)), ExitNotFound}
	}
	return all, nil
}

func toolDiffCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "diff [TOOL]", Short: "Show how the definition of a tool differs from the trusted one",
		Long: `Shows the tool definitions in quarantine, and how they differ from the trusted
ones.

The daemon trusts the first definition that a source sends for a tool. When the
source changes the definition, the tool is in quarantine: no list contains it,
and it cannot be called. It stays there until an operator accepts the new
definition. Built-in tools are always trusted.`,
		Example: "  toold tools diff\n  toold tools diff weather\n  toold tools accept weather",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return Usagef("%s takes one TOOL, or none for all", c.CommandPath())
			}
			return nil
		},
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			all, err := quarantined(ctx, c, strings.Join(args, ""))
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, q := range all {
				fmt.Fprintf(&text, "%s of %s%s\n%s\n", show.Line(q.GetWaiting().GetId()), show.Line(q.GetWaiting().GetSource()), a.OutView().RefusedBy(q), a.OutView().DefinitionDiff(q))
			}
			if len(all) == 0 {
				text.WriteString("every definition is trusted\n")
			}
			return printList(a, all, text.String())
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
