package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func rulesActiveCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "active", Short: "Show the permission rules in force, and how often each decided", Args: NoArgs,
		Long: `Shows the permission rules that can apply in your namespace, and how often each
decided since the rules came into force. Within a layer, the strongest action
comes first. Needs the role operator or viewer.`,
		Example: "  toold rules active\n  toold rules active -o json | jq '.rules[] | select(.hits.count == \"0\")'",
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			got, err := c.calls.GetPolicy(ctx, &tooldv1.GetPolicyRequest{})
			if err != nil {
				return err
			}
			return a.Print(got, a.OutView().Policy(got))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}

func rulesTryCommand(a *App) *cobra.Command {
	var f callFlags
	var last int32
	var caller, mode string
	c := &cobra.Command{
		Use:   "try FILE [TOOL [key=value … | --json '{…}']]",
		Short: "Judge past calls, or one call, by a rule file that is not in force",
		Long: `Sends a rule file to the daemon. The daemon judges the last calls of your
namespace by this file and by the rules in force. The command shows the calls
for which the verdicts differ. With a TOOL, the daemon judges only that call.

Nothing runs, and the rules in force do not change. If FILE is "-", the command
reads standard input. Needs the role operator.`,
		Example: "  toold rules try rules.yaml\n  toold rules try rules.yaml --last 100 -o json\n  toold rules try rules.yaml bash command='git push'",
		Args:    AtLeast("a FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := readRuleFile(a, args[0])
			if err != nil {
				return err
			}
			client, err := a.dial()
			if err != nil {
				return err
			}
			defer client.close()
			request := &tooldv1.TryRulesRequest{Rules: &text, Subject: &tooldv1.TryRulesRequest_LastCalls{LastCalls: last}}
			if len(args) > 1 {
				spec, err := f.spec(c.Context(), a, client, args[1:])
				if err != nil {
					return err
				}
				request.Subject = &tooldv1.TryRulesRequest_Call{Call: &tooldv1.TrialCall{Spec: spec, Caller: caller, PermissionMode: mode}}
			}
			got, err := client.calls.TryRules(c.Context(), request)
			if err != nil {
				return err
			}
			if at := got.GetError(); at != nil {
				return Usagef("%s:%d:%d: %s", args[0], at.GetLine(), at.GetColumn(), at.GetMessage())
			}
			return a.Print(got, a.OutView().RuleTrial(args[0], got))
		},
	}
	f.add(c)
	c.Flags().Int32Var(&last, "last", 1000, "number of past calls to judge, at most 1000")
	c.Flags().StringVar(&caller, "caller", "", "subject of the caller of the call (default: you)")
	c.Flags().StringVar(&mode, "permission-mode", "", "permission mode of the run of the call, such as plan")
	a.OutputFlag(c, FormTable, FormJSON)
	return c
}

// maxRuleFile is larger than the daemon's limit, so that the daemon reports what is wrong with a file that is too large.
const maxRuleFile = 1 << 20

func readRuleFile(a *App, name string) (string, error) {
	from := a.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", Fail(ExitUsage, err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxRuleFile))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return string(text), nil
}
