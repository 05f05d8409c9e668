package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func reloadCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "reload", Short: "Make the daemon read its rules and configuration again", Example: "  toold reload", Args: NoArgs,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.Reload(ctx, &tooldv1.ReloadRequest{})
			if err != nil {
				return err
			}
			text := "nothing changed\n"
			if len(got.GetChanged()) > 0 {
				text = "changed: " + show.Line(strings.Join(got.GetChanged(), ", ")) + "\n"
			}
			if len(got.GetNeedsRestart()) > 0 {
				text += "applies only after a restart: " + show.Line(strings.Join(got.GetNeedsRestart(), ", ")) + "\n"
			}
			return a.Print(got, text)
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}
