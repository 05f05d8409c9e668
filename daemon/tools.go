package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/ask"
	"github.com/toold-dev/toold/tools/files"
	"github.com/toold-dev/toold/tools/frontend"
	"github.com/toold-dev/toold/tools/shell"
	"github.com/toold-dev/toold/tools/todo"
	"github.com/toold-dev/toold/tools/worker"
)

// builtin is the source of the tools that the daemon brings along.
const builtin = "builtin"

// embedded is the source of the tools that the program of the daemon gives ([WithTools]).
const embedded = "embedded"

// mayStartProcesses reports whether calls of a tool may start processes. A tool of this program that does so requires isolation or a
// network for them; of tools from elsewhere it is assumed.
func mayStartProcesses(t *tool.Descriptor) bool {
	if _, elsewhere := worker.NamespaceOf(t.Source); elsewhere {
		return false // what a worker starts is not around any process of this machine's
	}
	if strings.HasPrefix(t.Source, subagentSource) {
		return false // its tool calls are calls of their own
	}
	if t.Source != builtin && t.Source != embedded && t.Source != frontend.Source {
		return true
	}
	return t.RequiredIsolation == tool.IsolationFull || t.RequiredNetwork != "" && t.RequiredNetwork != "none"
}

// needs is what the built-in tools need of the other parts.
type needs struct {
	given      []tool.Tool // by the program, beside the built-in ones
	version    string
	exec       shell.Exec
	artifacts  files.Artifacts
	secrets    *redact.Live // nil: nothing is secret
	references expander
}

// registerTools makes the built-in tools, and adds those that the program gives. The jobs are nil when no command may run in the background.
func registerTools(r *registry.Registry, cfg *config.Config, all workspaces, o needs) (*shell.Jobs, error) {
	o.exec = referring{o.exec, o.references}
	tools, jobs, err := workspaceTools(cfg, all[config.Sharing].path, all[config.Sharing].root, o, nil)
	if err != nil {
		return nil, err
	}
	own := make([]map[string]tool.Tool, len(tools)) // by namespace, of each tool
	for _, namespace := range cfg.WithWorkspaces() {
		theirs, _, err := workspaceTools(cfg, all[namespace].path, all[namespace].root, o, jobs)
		if err != nil {
			return nil, err
		}
		for i, t := range theirs { // the same tools in the same order
			if own[i] == nil {
				own[i] = map[string]tool.Tool{}
			}
			own[i][namespace] = t
		}
	}
	for i := range tools {
		tools[i] = wire.PerNamespace(tools[i], own[i])
	}
	tools = append(tools, ask.New(), todo.Read(), todo.Write())
	fromWeb, err := webTools(cfg, o.version, o.references, o.secrets)
	if err != nil {
		return jobs, err
	}
	tools = append(tools, fromWeb...)
	if err := r.Register(builtin, tools...); err != nil {
		return nil, err
	}
	return jobs, r.Register(embedded, o.given...)
}

// workspaceTools makes the built-in tools that work in a workspace. Shells in the background are kept in jobs; nil: in new ones.
func workspaceTools(cfg *config.Config, path string, root *os.Root, o needs, jobs *shell.Jobs) ([]tool.Tool, *shell.Jobs, error) {
	background := shell.Background{Lifetime: cfg.Bash.BackgroundTime, Each: cfg.Bash.BackgroundEach, All: max(64, 2*cfg.Bash.BackgroundEach)}
	if cfg.Bash.BackgroundEach > 0 {
		background.Exec = o.exec
	}
	if o.secrets != nil {
		background.Clean = func() shell.Cleaner { return o.secrets.Stream() }
	}
	policy, err := cfg.Policy(cfg.Bash.Profile, path)
	if err != nil {
		return nil, nil, err
	}
	commands, jobs, err := shell.New(shell.Config{
		Exec: limited{o.exec, cfg.Bash.Timeout}, Dir: path, Env: slices.Concat(shell.DefaultEnv(), cfg.Bash.Env),
		OutputBudget: max(cfg.Limits.OutputBudget, 1<<10), Background: background, Jobs: jobs, Policy: policy,
	})
	if err != nil {
		return nil, nil, err
	}
	tools := files.New(files.Config{Workspace: &files.Local{Root: root}, Root: path, Protect: cfg.Asked(path), Artifacts: o.artifacts})
	return append(tools, commands...), jobs, nil
}

// limited gives a command the operator's time at most, whatever the model asked for.
type limited struct {
	shell.Exec
	most time.Duration
}

// Run implements [shell.Exec].
func (l limited) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	ctx, stop := context.WithTimeoutCause(ctx, l.most, &tool.Error{
		Code: tool.Timeout, Reason: "OPERATOR_LIMIT", Message: fmt.Sprintf("The command was killed: no command may run longer than %v here", l.most),
	})
	defer stop()
	return l.Exec.Run(ctx, spec)
}

// readRules reads the rule file; nil without one.
func readRules(cfg *config.Config) (*permission.Rules, []byte, error) {
	if cfg.Rules == "" {
		return nil, nil, nil
	}
	text, err := os.ReadFile(cfg.Rules)
	if err != nil {
		return nil, nil, config.Errorf("rules: %w", err)
	}
	rules, err := permission.Parse(cfg.Rules, text)
	if err != nil {
		return nil, nil, config.Errorf("rules: %w", err)
	}
	return rules, text, nil
}

// paths says which files of a namespace's workspace paths in arguments name.
func (w workspaces) paths(namespace, text string) (clean, actual, root string, ok bool) {
	at := w.of(namespace)
	clean, actual, ok = files.Place(context.Background(), &files.Local{Root: at.root}, at.path, text)
	return clean, actual, at.path, ok
}

// commands says how the calls of tools that take commands are split into simple ones.
func commands() map[string]permission.Splitter {
	return map[string]permission.Splitter{"bash": splitCommand, "bash_input": splitTyped}
}

// splitTyped shows the parts of what is typed to rules that deny. None allows it: what reads it is not known.
func splitTyped(args tool.Arguments) ([]permission.Part, permission.Known) {
	return splitText(args.String("text"), permission.Open)
}

func splitCommand(args tool.Arguments) ([]permission.Part, permission.Known) {
	if shell.TakesInput(args) { // no rule for commands allows what will be typed
		return splitText(args.String("command"), permission.Open)
	}
	return splitText(args.String("command"), permission.Whole)
}

// splitText splits a text that is known as far as said, if it is understood.
func splitText(text string, known permission.Known) (list []permission.Part, _ permission.Known) {
	parts, ok := shell.Split(text)
	for _, p := range parts {
		list = append(list, permission.Part{Text: p.Text, Also: p.Also})
	}
	if !ok {
		known = permission.Unclear
	}
	return list, known
}
