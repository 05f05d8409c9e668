package daemon

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// rememberFlags say what a yes is kept for.
type rememberFlags struct {
	option, scope string
	period        time.Duration
}

var rememberScopes = []string{"run", "thread", "namespace"}

func (f *rememberFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.option, "remember", "", "keep the yes for later calls: the number, or the text, of what the ticket offers")
	c.Flags().StringVar(&f.scope, "scope", "", "with --remember: run (the default when there is one), thread, or namespace (operators)")
	c.Flags().DurationVar(&f.period, "for", 0, "with --remember: how long, such as 8h; 24h unless said, 720h at most")
	_ = c.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions(rememberScopes, cobra.ShellCompDirectiveNoFileComp))
}

// of returns what the daemon is asked to keep; nil without --remember.
func (f *rememberFlags) of(call *tooldv1.Call, now time.Time) (*tooldv1.Remember, error) {
	if f.option == "" {
		if f.scope != "" || f.period != 0 {
			return nil, usagef("--scope and --for belong to --remember")
		}
		return nil, nil
	}
	offered := call.GetSuspension().GetRememberOptions()
	if len(offered) == 0 {
		return nil, usagef("this ticket offers nothing to keep: it is asked each time")
	}
	r := &tooldv1.Remember{Option: f.option}
	if i, err := strconv.Atoi(f.option); err == nil {
		if i < 1 || i > len(offered) {
			return nil, usagef("--remember %d: the ticket offers 1 to %d", i, len(offered))
		}
		r.Option = offered[i-1].GetOption()
	}
	switch scope := cmp.Or(f.scope, narrowest(call.GetRun())); scope {
	case "run":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_RUN
	case "thread":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_THREAD
	case "namespace":
		r.Scope = tooldv1.RememberScope_REMEMBER_SCOPE_NAMESPACE
	case "":
		return nil, usagef("the call belongs to no run and no thread; an operator may keep the answer with --scope namespace")
	default:
		return nil, usagef("--scope %q is not one of %s", scope, strings.Join(rememberScopes, ", "))
	}
	if f.period < 0 {
		return nil, usagef("--for %s: want a time that is to come", f.period)
	}
	if f.period > 0 {
		r.Until = timestamppb.New(now.Add(f.period))
	}
	return r, nil
}

func narrowest(run *tooldv1.Run) string {
	switch {
	case run.GetRunId() != "":
		return "run"
	case run.GetThreadId() != "":
		return "thread"
	}
	return ""
}

// listRules prints the answers that are kept.
func (a *app) listRules(ctx context.Context, c *client, id string) error {
	all, err := keptRules(ctx, c, id)
	if err != nil {
		return err
	}
	if len(all) == 0 && a.output == formTable {
		fmt.Fprintln(a.err, "no answers are kept; "+a.program()+" approve --remember keeps one")
		return nil
	}
	return printList(a, all, a.outView().Rules(all))
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

func (a *app) rulesRevokeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "revoke RULE …",
		Short: "End answers that were kept: such calls are asked about again",
		Long: `Ends answers that were kept for later calls. When the command is done, no call
will be allowed by them any more. A beginning of an id is enough when no other
rule has it.`,
		Example:           "  toold rules revoke r-3KQ7\n  toold rules --tool bash -o jsonl | jq -r .rule_id | xargs toold rules revoke",
		Args:              atLeast("a RULE"),
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
			return printList(a, revoked, a.outView().Rules(revoked))
		}),
	}
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}

// ruleNamed returns the id that name means; one that is not known is the daemon's to refuse.
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
	return "", usagef("%d rules begin with %q: %s", len(near), name, show.Line(strings.Join(near[:min(len(near), 5)], ", ")))
}

func (a *app) completeRules(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
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

func (a *app) modeCommand() *cobra.Command {
	var run, thread string
	c := &cobra.Command{
		Use:   "mode MODE --run RUN | --thread THREAD",
		Short: "Choose the permission mode of a run or thread",
		Long: `Chooses the permission mode of a run or thread, from its next call on:

    default       the rules alone
    plan          nothing but what is read-only
    accept_edits  edits of files are not asked about (approvers)
    bypass        nothing is asked that one person could agree to (operators)

and the rule sets that the operator made. No mode beats a deny. To leave a mode
needs what choosing it needs; the mode of a run ends with the run.`,
		Example: "  toold mode plan --run run-17\n  toold mode default --thread thread-4",
		Args:    exactArgs("a MODE"),
		RunE: a.withClient(func(ctx context.Context, c *client, args []string) error {
			request := &tooldv1.SetPermissionModeRequest{Mode: args[0]}
			switch {
			case (run == "") == (thread == ""):
				return usagef("name a run or a thread: --run RUN or --thread THREAD")
			case run != "":
				request.Selector = &tooldv1.SetPermissionModeRequest_RunId{RunId: run}
			default:
				request.Selector = &tooldv1.SetPermissionModeRequest_ThreadId{ThreadId: thread}
			}
			got, err := c.calls.SetPermissionMode(ctx, request)
			if err != nil {
				return err
			}
			return a.print(got, fmt.Sprintf("%s, was %s\n", show.Line(args[0]), show.Line(got.GetPrevious())))
		}),
	}
	c.Flags().StringVar(&run, "run", "", "of this run")
	c.Flags().StringVar(&thread, "thread", "", "of this thread; the mode of a run counts in its place")
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"default", "plan", "accept_edits", "bypass"}, cobra.ShellCompDirectiveNoFileComp)
	a.outputFlag(c, formTable, formJSON, formJSONL)
	return c
}
