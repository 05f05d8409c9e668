package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/setting"
)

func tokenCreateCommand(a *App) *cobra.Command {
	request, roles, expires := &tooldv1.CreateTokenRequest{}, []string(nil), ""
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a token and print it", Args: ExactArgs("NAME"),
		Long: `Creates a token and prints it. The daemon stores only its hash, so the token
cannot be shown again. NAME describes the purpose of the token.

The token gives no more rights than your own credential has. When your
credential is revoked, the token ends too. Needs the role operator or admin;
--subject and --namespace need the role admin.`,
		Example: "  toold token create ci --role caller > ci.token\n  toold token create dashboard --role operator --read-only --expires 30d",
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) (err error) {
			request.Name = args[0]
			if request.Roles, err = toRoles(roles); err != nil {
				return err
			}
			d, err := setting.ParseDuration(expires)
			if err != nil || d <= 0 || d == setting.Never {
				return Usagef("--expires %q is not a duration such as 30d or 12h", expires)
			}
			request.ExpiresAt = timestamppb.New(time.Now().Add(d))
			got, err := c.admin.CreateToken(ctx, request)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Err, "%s is valid until %s\n", show.Line(got.GetToken().GetTokenId()), got.GetToken().GetExpiresAt().AsTime().UTC().Format(time.DateTime+" UTC"))
			return a.Print(got, show.Line(got.GetText())+"\n")
		}),
	}
	f := c.Flags()
	f.StringArrayVar(&roles, "role", nil, "a role: caller, delegate, approver, operator, worker, viewer or admin; required, may be repeated")
	f.BoolVar(&request.ReadOnly, "read-only", false, "permit only requests that change nothing")
	f.StringVar(&expires, "expires", "90d", "how long the token is valid; at most 366d")
	f.StringVar(&request.Subject, "subject", "", "the subject in records (default: your own)")
	f.StringVar(&request.Namespace, "namespace", "", "the namespace (default: your own)")
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}

func toRoles(names []string) (roles []tooldv1.Role, err error) {
	for _, name := range names {
		r := tooldv1.Role_value["ROLE_"+strings.ToUpper(name)]
		if r == 0 {
			return nil, Usagef("--role %q: want caller, delegate, approver, operator, worker, viewer or admin", name)
		}
		roles = append(roles, tooldv1.Role(r))
	}
	if len(roles) == 0 {
		return nil, Usagef("a token needs --role")
	}
	return roles, nil
}

func tokenListCommand(a *App) *cobra.Command {
	namespace := ""
	c := &cobra.Command{
		Use: "list", Short: "List the created tokens, browser sessions and login links", Args: NoArgs,
		Long: `Lists the created tokens, browser sessions and unused login links of a
namespace, oldest first. The list does not contain the tokens of the setting
auth.tokens. Needs the role operator or admin.`,
		Example: "  toold token list\n  toold token list -o jsonl | jq -r .token_id",
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			all, err := allTokens(ctx, c, namespace)
			if err != nil {
				return err
			}
			return printList(a, all, a.OutView().Tokens(all))
		}),
	}
	c.Flags().StringVar(&namespace, "namespace", "", "another namespace (for admins)")
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

func allTokens(ctx context.Context, c *client, namespace string) (all []*tooldv1.Token, err error) {
	request := &tooldv1.ListTokensRequest{Namespace: namespace, PageSize: 1000}
	for {
		page, err := c.admin.ListTokens(ctx, request)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetTokens()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return all, nil
		}
	}
}

func tokenRevokeCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "revoke TOKEN-ID …", Short: "Revoke tokens, browser sessions and login links", Args: AtLeast("a TOKEN-ID"),
		Long: `Revokes credentials at once. Their streams end, and the credentials that they
created are revoked too. "toold token list" shows the ids. Needs the role
operator or admin.

To revoke a token of the setting auth.tokens, remove it from the configuration
and run "toold reload".`,
		Example: "  toold token revoke cred-k3q7v2m4a6x5z2b3",
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return a.complete(args, word, func(ctx context.Context, c *client) (words []string) {
				all, err := allTokens(ctx, c, "")
				if err != nil {
					return nil
				}
				for _, t := range all {
					words = append(words, show.Line(t.GetTokenId())+"\t"+show.Line(t.GetName()))
				}
				return words
			})
		},
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			for _, id := range slices.Compact(args) {
				got, err := c.admin.RevokeToken(ctx, &tooldv1.RevokeTokenRequest{TokenId: id})
				if err != nil {
					return err
				}
				if err := a.Print(got, fmt.Sprintf("%s revoked, with %d that it created\n", show.Line(id), got.GetRevoked()-1)); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	a.OutputFlag(c, FormTable, FormJSONL)
	return c
}

func loginCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "login", Short: "Print a link that signs a browser in", Args: NoArgs,
		Long: `Prints a link that signs a browser in with your rights. The link works once, and
for 5 minutes. The session lasts for the time of the setting auth.session, 12
hours by default. It ends earlier when your own credential ends.`,
		Example: "  xdg-open \"$(toold login)\"",
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.admin.CreateLogin(ctx, &tooldv1.CreateLoginRequest{})
			if err != nil {
				return err
			}
			return a.Print(got, show.Line(got.GetUrl())+"\n")
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}
