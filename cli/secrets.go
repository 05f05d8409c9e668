package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func secretsCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "secrets", Short: "Show the secrets behind secret:// references, never a value", Example: "  toold secrets list", Args: NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	list := &cobra.Command{
		Use: "list", Short: "List the secrets, and which tools get them", Example: "  toold secrets list\n  toold secrets list -o jsonl | jq -r .name", Args: NoArgs,
		Long: `Lists the secrets of the daemon's configuration: where each is read from, who is
entitled, and how it went when it was wanted last. For operators.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error { return listSecrets(ctx, a, c, false) }),
	}
	check := &cobra.Command{
		Use: "check", Short: "Have the daemon read every secret now", Example: "  toold secrets check", Args: NoArgs,
		Long: `Has the daemon read every secret, commands included, and lists how that went.
Exit code 1 when one cannot be read. For operators.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error { return listSecrets(ctx, a, c, true) }),
	}
	for _, shown := range []*cobra.Command{list, check} {
		a.OutputFlag(shown, FormTable, FormJSON, FormJSONL)
	}
	c.AddCommand(list, check)
	return c
}

func listSecrets(ctx context.Context, a *App, c *client, check bool) error {
	got, err := c.admin.ListSecrets(ctx, &tooldv1.ListSecretsRequest{Check: check})
	if err != nil {
		return err
	}
	if err := printList(a, got.GetSecrets(), a.OutView().Secrets(got.GetSecrets())); err != nil || !check {
		return err
	}
	unread := 0
	for _, s := range got.GetSecrets() {
		if s.GetProblem() != "" {
			unread++
		}
	}
	if unread > 0 {
		return codedError{fmt.Errorf("%d of %d secrets cannot be read", unread, len(got.GetSecrets())), ExitFailed}
	}
	return nil
}
