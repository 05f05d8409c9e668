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
	"github.com/toold-dev/toold/tools/search"
	"github.com/toold-dev/toold/tools/shell"
	"github.com/toold-dev/toold/tools/todo"
	"github.com/toold-dev/toold/tools/worker"
)

// builtin is the source of the tools that are part of the daemon.
const builtin = "builtin"

// embedded is the source of the tools that the embedding program adds with [WithTools].
const embedded = "embedded"

// mayStartProcesses reports whether calls of a tool may start processes under this daemon. For a built-in, embedded or frontend tool, it
// returns true if the tool declares that it requires isolation or a network. Tools of workers and subagents start no processes. Tools of
// all other sources are assumed to start processes.
func mayStartProcesses(t *tool.Descriptor) bool {
	if _, elsewhere := worker.NamespaceOf(t.Source); elsewhere {
		return false // a worker's processes do not run under this daemon's isolation
	}
	if strings.HasPrefix(t.Source, subagentSource) {
		return false // a subagent only starts other calls
	}
	if t.Source != builtin && t.Source != embedded && t.Source != frontend.Source {
		return true
	}
	return t.RequiredIsolation == tool.IsolationFull || t.RequiredNetwork != "" && t.RequiredNetwork != "none"
}

// needs holds the parts of the daemon that the built-in tools use.
type needs struct {
	given      []tool.Tool // tools that the embedding program adds
	version    string
	exec       shell.Exec
	artifacts  files.Artifacts
	secrets    *redact.Live // nil when nothing is redacted
	references expander
	finder     search.Finder
}

// registerTools creates and registers the built-in tools, and registers those of the embedding program. The returned jobs are nil when
// commands may not run in the background.
func registerTools(r *registry.Registry, cfg *config.Config, all workspaces, o needs) (*shell.Jobs, error) {
	o.exec = referring{o.exec, o.references}
	tools, jobs, err := workspaceTools(cfg, all[config.Sharing].path, all[config.Sharing].root, o, nil)
	if err != nil {
		return nil, err
	}
	own := make([]map[string]tool.Tool, len(tools)) // for each tool, its instances by namespace
	for _, namespace := range cfg.WithWorkspaces() {
		theirs, _, err := workspaceTools(cfg, all[namespace].path, all[namespace].root, o, jobs)
		if err != nil {
			return nil, err
		}
		for i, t := range theirs { // each list has the same tools in the same order
			if own[i] == nil {
				own[i] = map[string]tool.Tool{}
			}
			own[i][namespace] = t
		}
	}
	for i := range tools {
		tools[i] = wire.PerNamespace(tools[i], own[i])
	}
	tools = append(tools, ask.New(), todo.Read(), todo.Write(), search.New(o.finder))
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

// workspaceTools creates the built-in tools that work in a workspace. Background shells belong to jobs; with nil jobs, it creates new
// [shell.Jobs].
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

// limited limits the time of a command to the operator's limit, even if the model requested more.
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

// readRules reads the rule file. It returns nil when none is configured.
func readRules(cfg *config.Config) (*permission.Rules, error) {
	if cfg.Rules == "" {
		return nil, nil
	}
	text, err := os.ReadFile(cfg.Rules)
	if err != nil {
		return nil, config.Errorf("rules: %w", err)
	}
	rules, err := permission.Parse(cfg.Rules, text)
	if err != nil {
		return nil, config.Errorf("rules: %w", err)
	}
	return rules, nil
}

// paths resolves a path argument to a file in the workspace of a namespace.
func (w workspaces) paths(namespace, text string) (clean, actual, root string, ok bool) {
	at := w.of(namespace)
	clean, actual, ok = files.Resolve(context.Background(), &files.Local{Root: at.root}, at.path, text)
	return clean, actual, at.path, ok
}

// commands returns, for each tool that takes commands, the function that splits its calls into simple commands.
func commands() map[string]permission.Splitter {
	return map[string]permission.Splitter{"bash": splitCommand, "bash_input": splitTyped}
}

// splitTyped splits text that is typed into a terminal, so that deny rules can match it. The program that reads the text is unknown, so no
// allow rule matches it.
func splitTyped(args tool.Arguments) ([]permission.Part, permission.Known) {
	return splitText(args.String("text"), permission.Open)
}

func splitCommand(args tool.Arguments) ([]permission.Part, permission.Known) {
	if shell.TakesInput(args) { // Later input of the command is unknown, so allow rules must not match the command.
		return splitText(args.String("command"), permission.Open)
	}
	return splitText(args.String("command"), permission.Whole)
}

// splitText splits a command text. If the text can be parsed, it returns known; otherwise it reports that the text is unclear.
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
