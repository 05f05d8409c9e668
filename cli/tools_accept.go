package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func toolAcceptCommand(a *App) *cobra.Command {
	var digest string
	c := &cobra.Command{
		Use: "accept TOOL --digest DIGEST", Short: "Trust a tool definition that is in quarantine", Args: ExactArgs("a TOOL"),
		Example: "  toold tools diff deploy\n  toold tools accept deploy --digest DIGEST",
		Long: `Trusts a definition that "toold tools diff" showed. Without --digest the command
only shows the definition, and the command line that trusts it.`,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			if digest == "" {
				return a.showWaiting(ctx, c, "trust", "accept", args[0])
			}
			got, err := c.admin.AcceptTool(ctx, &tooldv1.AcceptToolRequest{Tool: args[0], Digest: digest})
			if err != nil {
				return err
			}
			return a.Print(got.GetTool(), show.Line(got.GetTool().GetId())+" is now trusted\n")
		}),
	}
	c.Flags().StringVar(&digest, "digest", "", "digest of the definition that you checked")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func toolRefuseCommand(a *App) *cobra.Command {
	var digest string
	c := &cobra.Command{
		Use: "refuse TOOL --digest DIGEST", Short: "Refuse a tool definition that is in quarantine", Args: ExactArgs("a TOOL"),
		Example: "  toold tools diff deploy\n  toold tools refuse deploy --digest DIGEST",
		Long: `Refuses a definition that "toold tools diff" showed. The tool cannot be called
until its source sends the trusted definition again. "toold tools accept" still
accepts the refused definition. Without --digest the command only shows the
definition, and the command line that refuses it.`,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			if digest == "" {
				return a.showWaiting(ctx, c, "refuse", "refuse", args[0])
			}
			got, err := c.admin.RefuseTool(ctx, &tooldv1.RefuseToolRequest{Tool: args[0], Digest: digest})
			if err != nil {
				return err
			}
			return a.Print(got, "this definition of "+show.Line(args[0])+" is refused\n")
		}),
	}
	c.Flags().StringVar(&digest, "digest", "", "digest of the definition that you checked")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

// showWaiting shows the definition of a tool that waits, and returns an error that says what to type.
func (a *App) showWaiting(ctx context.Context, c *client, what, verb, id string) error {
	all, err := quarantined(ctx, c, id)
	if err != nil {
		return err
	}
	fmt.Fprint(a.Err, a.errView().DefinitionDiff(all[0]))
	return Usagef("to %s this definition: %s tools %s %s --digest %s", what, a.Program(), verb, show.Line(id), all[0].GetWaiting().GetDigest())
}
