package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func secretsCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "secrets", Short: "List the secrets of secret:// references, never their values", Example: "  toold secrets list", Args: NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	list := &cobra.Command{
		Use: "list", Short: "List the secrets, and the tools that get them", Example: "  toold secrets list\n  toold secrets list -o jsonl | jq -r .name", Args: NoArgs,
		Long: `Lists the secrets in the daemon's configuration. For each secret it shows the
source, the tools and namespaces that may use it, and the result of the last
read. Needs the role operator or admin. Operators do not see the sources.`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error { return listSecrets(ctx, a, c, false) }),
	}
	check := &cobra.Command{
		Use: "check", Short: "Make the daemon read every secret now", Example: "  toold secrets check", Args: NoArgs,
		Long: `Makes the daemon read every secret, and lists the results. The daemon also runs
the programs that print secrets. The exit code is 1 when the daemon cannot read
a secret. Needs the role admin.`,
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
