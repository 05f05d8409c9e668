package cli

import (
	"fmt"
	"strings"

	"github.com/toold-dev/toold/cli/show"

	"context"

	"github.com/spf13/cobra"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func rulesCommand(a *App) *cobra.Command {
	var id string
	c := &cobra.Command{
		Use: "rules", Short: "List remembered answers, show or test the permission rules", Args: NoArgs,
		Long: `Lists the remembered answers in force ("toold approve --remember"), oldest
first. The subcommands are:

  revoke  revokes remembered answers
  active  shows the permission rules in force, and how often each one decided
  try     judges past calls by a rule file that is not in force
  test    shows which configured rule decides for a call, also without a daemon`,
		Example: "  toold rules\n  toold rules --tool bash -o jsonl\n  toold rules revoke r-3KQ7\n  toold rules test bash command='git push'",
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			return listRules(ctx, a, c, id)
		}),
	}
	c.Flags().StringVar(&id, "tool", "", "only answers for this tool")
	_ = c.RegisterFlagCompletionFunc("tool", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.completeTools(c, nil, word)
	})
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	c.AddCommand(rulesRevokeCommand(a), rulesActiveCommand(a), rulesTryCommand(a))
	return c
}

// listRules prints the kept approvals.
func listRules(ctx context.Context, a *App, c *client, id string) error {
	all, err := keptRules(ctx, c, id)
	if err != nil {
		return err
	}
	if len(all) == 0 && a.Output == FormTable {
		fmt.Fprintln(a.Err, "no answers are remembered; "+a.Program()+" approve --remember stores one")
		return nil
	}
	return printList(a, all, a.OutView().Rules(all))
}

func keptRules(ctx context.Context, c *client, id string) (all []*tooldv1.Rule, err error) {
	request := &tooldv1.ListRulesRequest{Tool: id}
	for {
		page, err := c.calls.ListRules(ctx, request)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetRules()...)
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return all, nil
		}
	}
}

func rulesRevokeCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "revoke RULE …",
		Short: "Revoke remembered answers: such calls need approval again",
		Long: `Revokes remembered answers. When the command has ended, they allow no calls. You
can shorten an id if no other rule begins with the same characters.`,
		Example:           "  toold rules revoke r-3KQ7\n  toold rules --tool bash -o jsonl | jq -r .rule_id | xargs toold rules revoke",
		Args:              AtLeast("a RULE"),
		ValidArgsFunction: a.completeRules,
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			all, err := keptRules(ctx, c, "")
			if err != nil {
				return err
			}
			var revoked []*tooldv1.Rule
			for _, name := range args {
				id, err := ruleNamed(all, name)
				if err != nil {
					return err
				}
				got, err := c.calls.RevokeRule(ctx, &tooldv1.RevokeRuleRequest{RuleId: id})
				if err != nil {
					return err
				}
				revoked = append(revoked, got.GetRule())
			}
			return printList(a, revoked, a.OutView().Rules(revoked))
		}),
	}
	a.OutputFlag(c, FormTable, FormJSON, FormJSONL)
	return c
}

// ruleNamed returns the id of the rule that name means. It returns an unknown name unchanged, so that the daemon refuses it.
func ruleNamed(all []*tooldv1.Rule, name string) (string, error) {
	var near []string
	for _, r := range all {
		if r.GetRuleId() == name {
			return name, nil
		}
		if strings.HasPrefix(r.GetRuleId(), name) {
			near = append(near, r.GetRuleId())
		}
	}
	switch len(near) {
	case 0:
		return name, nil
	case 1:
		return near[0], nil
	}
	return "", Usagef("%d rules begin with %q: %s", len(near), name, show.Line(strings.Join(near[:min(len(near), 5)], ", ")))
}

func (a *App) completeRules(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	return a.complete(args, word, func(ctx context.Context, c *client) (words []string) {
		page, err := c.calls.ListRules(ctx, &tooldv1.ListRulesRequest{})
		if err != nil {
			return nil
		}
		for _, r := range page.GetRules() {
			words = append(words, show.Line(r.GetRuleId())+"\t"+show.Line(r.GetTool()+" "+r.GetTitle()))
		}
		return words
	})
}
