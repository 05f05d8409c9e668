package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/cli"
	"github.com/toold-dev/toold/cli/show"
	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/plugins/permission"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
)

// assumptions describes the call that "rules test" checks against the rules.
type assumptions struct {
	json, tier, source, mode                                        string
	namespace, caller, onBehalfOf, run, thread, agent, origin, role string
	unattended                                                      bool
}

func (s *assumptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.json, "json", "", "the arguments as JSON text")
	f.StringVar(&s.namespace, "namespace", "default", "the caller's namespace")
	f.StringVar(&s.caller, "caller", "caller", "the caller's subject")
	f.StringVar(&s.role, "role", "caller", "the caller's role")
	f.StringVar(&s.onBehalfOf, "on-behalf-of", "", "the subject for which the caller acts")
	f.StringVar(&s.run, "run", "run", "the run that the call belongs to")
	f.StringVar(&s.thread, "thread", "", "the thread of the run")
	f.StringVar(&s.agent, "agent", "", "the agent that makes the call")
	f.StringVar(&s.origin, "origin", "", "what started the run")
	f.StringVar(&s.mode, "mode", "", "the permission mode of the run, such as plan")
	f.StringVar(&s.tier, "tier", "", "assume this tier: OBSERVE, CONFIRM or ESCALATE")
	f.StringVar(&s.source, "source", "", "assume that an unknown tool has this source")
	f.BoolVar(&s.unattended, "unattended", false, "assume an unattended run")
}

func rulesTestCommand(a *cli.App, o options) *cobra.Command {
	var s assumptions
	c := &cobra.Command{
		Use:   "test TOOL [key=value … | --json '{…}' | -]",
		Short: "Show which rule decides for a call, and why",
		Long: `Shows the verdict of the configured rules for a call, the rule that decides, and
why the other rules do not apply. Nothing runs. The command reads the rule file
of the configuration and uses the same code as the daemon. It ignores remembered
rules.

When a daemon runs, the command asks it for the tools of its workers and MCP
servers. The command assumes the tier CONFIRM for an unknown tool; --tier and
--source change this.

` + cli.ArgumentsHelp,
		Example: `  toold rules test bash command='git push --force'
  toold rules test write path=src/a.go content=x --rules rules.yaml --mode plan
  toold rules test bash command='make release' --unattended -o json | jq .why
  toold rules test mcp_merge --source mcp --tier ESCALATE --caller nightly`,
		Args: cli.AtLeast("a TOOL"),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := loadConfig(a, c)
			if err != nil {
				return err
			}
			ruling, err := rule(c.Context(), a, cfg, o.tools, &s, args[0], args[1:])
			if err != nil {
				return err
			}
			if a.Output == cli.FormTable {
				_, err = fmt.Fprint(a.Out, a.OutView().Ruling(ruling))
				return err
			}
			e := json.NewEncoder(a.Out)
			e.SetIndent("", "  ")
			return e.Encode(ruling)
		},
	}
	config.AddFlags(c.Flags())
	s.flags(c)
	a.OutputFlag(c, cli.FormTable, cli.FormJSON)
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"default", "plan", "accept_edits", "bypass"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// rule returns the ruling of the configured rules about a call. The tools are those of the configuration, of the embedding program and of a
// running daemon.
func rule(ctx context.Context, a *cli.App, cfg *config.Config, given []tool.Tool, s *assumptions, name string, words []string) (*show.Ruling, error) {
	rules, err := readRules(cfg)
	if err != nil {
		return nil, cli.Fail(cli.ExitUsage, err)
	}
	if rules == nil {
		rules = permission.Default()
		fmt.Fprintln(a.Err, "toold: no rule file is configured; the tiers decide")
	}
	if s.tier != "" && !slices.Contains([]string{"OBSERVE", "CONFIRM", "ESCALATE"}, s.tier) {
		return nil, cli.Usagef("--tier %q is not one of OBSERVE, CONFIRM, ESCALATE", s.tier)
	}
	if _, err := os.Stat(cfg.WorkspaceOf(s.namespace)); errors.Is(err, fs.ErrNotExist) { // The workspace need not exist for a test of the rules.
		at := *cfg
		if at.Workspace, err = os.MkdirTemp("", "toold-rules"); err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(at.Workspace) }() // The directory is empty, so Remove deletes it.
		at.Workspaces = nil
		cfg = &at
	}
	tools, all, err := offlineTools(cfg, given)
	if err != nil {
		return nil, err
	}
	defer func() { _ = all.Close() }() // closing only releases handles; nothing was written
	addServed(ctx, a, tools)
	for _, w := range ruleWarnings(cfg, rules, tools) {
		fmt.Fprintln(a.Err, "toold: "+show.Text(w))
	}
	in, err := suppose(ctx, a, s, tools, name, words)
	if err != nil {
		return nil, err
	}
	gate := permission.New(permission.Config{Rules: rules, SingleUser: cfg.SingleUser, Commands: commands(), Paths: all.paths, Modes: oneMode(s.mode)})
	v, err := gate.Check(ctx, in)
	if err != nil {
		return nil, err
	}
	ruling := &show.Ruling{
		Tool: in.Descriptor.ID, Verdict: string(v.Kind()), Hidden: gate.Hidden(in.Caller, in.Descriptor), File: cfg.Rules,
		Tier: string(in.Assessment.Tier), Message: v.Reason(), Explanation: gate.Explain(in),
	}
	if r := v.Result(); r.IsError() {
		ruling.Verdict, ruling.Message = "DENY", r.Error.Message
	}
	return ruling, nil
}

// addServed adds the tools of a running daemon that the configuration does not define: those of workers and of MCP servers.
func addServed(ctx context.Context, a *cli.App, tools *registry.Registry) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := a.Dial()
	if err != nil {
		return
	}
	defer conn.Close()
	c := tooldv1.NewToolServiceClient(conn)
	for request := (&tooldv1.ListToolsRequest{}); ; {
		page, err := c.ListTools(ctx, request)
		if err != nil {
			return // no daemon is running
		}
		for _, d := range page.GetTools() {
			_ = tools.Register(d.GetSource(), tool.Func(served(d), nil)) // Ignore the error: the configuration already defines this tool.
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return
		}
	}
}

// served converts a listed descriptor, with the fields that rules use.
func served(d *tooldv1.Descriptor) tool.Descriptor {
	e := d.GetEffects()
	return tool.Descriptor{
		ID: d.GetId(), DisplayName: d.GetDisplayName(), Description: d.GetDescription(), Aliases: d.GetAliases(),
		Parameters: json.RawMessage(d.GetParameters()), MaxArguments: int(d.GetMaxArguments()),
		Effects: tool.Effects{
			Mutability:      tool.Mutability(strings.TrimPrefix(e.GetMutability().String(), "MUTABILITY_")),
			Safety:          tool.Safety(strings.TrimPrefix(e.GetSafety().String(), "SAFETY_")),
			Tier:            tool.Tier(strings.TrimPrefix(e.GetTier().String(), "TIER_")),
			ConcurrencySafe: e.GetConcurrencySafe(), OpenWorld: e.GetOpenWorld(),
		},
	}
}

// suppose builds the input of the gate as the engine would for the call.
func suppose(ctx context.Context, a *cli.App, s *assumptions, tools *registry.Registry, name string, words []string) (*hook.Input, error) {
	entry, known := tools.Lookup(name)
	d := &tool.Descriptor{ID: name, Source: cmp.Or(s.source, "unknown")}
	var schema string
	if known {
		d, schema = &entry.Descriptor, string(entry.Descriptor.Parameters)
	} else {
		fmt.Fprintf(a.Err, "toold: there is no tool %s here; its arguments are not checked\n", show.Line(name))
	}
	text, err := s.arguments(a, words, schema)
	if err != nil {
		return nil, err
	}
	args, err := call.Parse(text).Arguments(d.MaxArguments)
	if err == nil && known {
		err = entry.ValidateArguments(args)
	}
	if err != nil {
		failed := &tool.Result{Status: tool.StatusError, Error: tool.AsError(err)}
		return nil, cli.Fail(cli.ExitUsage, errors.New(failed.ModelText()))
	}
	in := &hook.Input{
		Namespace: s.namespace, CallID: "rules-test", Descriptor: d, Requested: text, Arguments: args, OnBehalfOf: s.onBehalfOf,
		Run:        tool.Run{ID: s.run, Thread: s.thread, Agent: tool.Agent{ID: s.agent}, Origin: s.origin, Unattended: s.unattended},
		Caller:     tool.Principal{Namespace: s.namespace, Subject: s.caller, Roles: []string{s.role}},
		Assessment: d.Effects.Normal(), Attempt: 1,
	}
	if known {
		in.ToolDigest = entry.Digest
		t := wire.Of(entry.Tool, s.namespace)
		in.Assessment, in.Description = (&lifecycle.Definition{Tool: t, Descriptor: d}).Assess(args), describe(ctx, t, in)
	}
	if s.tier != "" {
		in.Assessment.Tier = tool.Tier(s.tier)
	}
	return in, nil
}

func (s *assumptions) arguments(a *cli.App, words []string, schema string) (string, error) {
	switch {
	case s.json != "" && len(words) > 0:
		return "", cli.Usagef("--json contains all arguments; remove %q", words[0])
	case s.json != "":
		return s.json, nil
	case len(words) == 1 && words[0] == "-":
		return a.ReadInput()
	}
	return cli.ArgumentsOf(words, schema)
}

func describe(ctx context.Context, t tool.Tool, in *hook.Input) tool.Description {
	describer, ok := t.(tool.Describer)
	if !ok {
		return tool.Description{}
	}
	d, err := describer.Describe(ctx, &tool.Call{
		Namespace: in.Namespace, ID: in.CallID, Tool: in.Descriptor.OwnID(), Attempt: 1, Run: in.Run, Caller: in.Caller, Arguments: in.Arguments,
	})
	if err != nil {
		return tool.Description{Degraded: true}
	}
	return d
}

// oneMode is the permission mode of every run.
type oneMode string

// Modes implements [permission.Modes].
func (m oneMode) Modes(_, _, _ string) (ofRun, ofThread string) { return string(m), "" }

// ruleWarnings lists parts of the rules that are probably unintended, with file and line.
func ruleWarnings(cfg *config.Config, rules *permission.Rules, tools *registry.Registry) []string {
	if rules == nil {
		return nil
	}
	entries := tools.All()
	descriptors := make([]*tool.Descriptor, len(entries))
	for i, e := range entries {
		descriptors[i] = &e.Descriptor
	}
	var texts []string
	for _, w := range rules.Warnings(descriptors) {
		texts = append(texts, fmt.Sprintf("%s:%d:%d: %s", cfg.Rules, w.Line, w.Column, w.Text))
	}
	return texts
}

// offlineTools registers the tools without the means to run them. They may read the workspaces until the caller closes these.
func offlineTools(cfg *config.Config, given []tool.Tool) (*registry.Registry, workspaces, error) {
	all, err := openWorkspaces(cfg)
	if err != nil {
		return nil, nil, err
	}
	tools := registry.New(registry.Config{AssertFormats: cfg.Tools.AssertFormats})
	if err := rename(tools, cfg); err != nil {
		return nil, nil, errors.Join(err, all.Close())
	}
	_, err = registerTools(tools, cfg, all, needs{given: given, exec: noExec{}})
	if err == nil {
		err = registerSubagents(tools, cfg, nil, nil, nil)
	}
	var set *command.Set
	if err == nil {
		set, err = readManifests(cfg, noExec{}, noSecrets{}, nil, nil)
	}
	if err == nil {
		err = tools.Register(command.Source, set.Tools()...)
	}
	if err != nil {
		return nil, nil, errors.Join(err, all.Close())
	}
	return tools, all, nil
}
