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
		Use: "accept TOOL --digest DIGEST", Short: "Trust the definition of a tool that waits", Args: ExactArgs("a TOOL"),
		Example: "  toold tools diff deploy\n  toold tools accept deploy --digest DIGEST",
		Long: `Trusts a definition that "toold tools diff" showed. Without --digest it shows it
and says what to type.`,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			if digest == "" {
				all, err := quarantined(ctx, c, args[0])
				if err != nil {
					return err
				}
				fmt.Fprint(a.Err, a.errView().DefinitionDiff(all[0]))
				return Usagef("to trust this: %s tools accept %s --digest %s", a.Program(), show.Line(args[0]), all[0].GetWaiting().GetDigest())
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
