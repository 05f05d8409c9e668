// Package shell provides the tool bash, which runs a command line.
//
// The command runs in a new session, with the working directory and the environment that the operator configured. The model can choose
// neither. The output is streamed while the command runs. An exit code other than 0 is not an error of the call: the model reads it and
// continues. When the command ends, toold ends all processes that the command started.
//
// [Split] finds the parts of a command, so that rules and people can see what it will do. This is advice only, because the text of a
// command does not limit what it does.
//
// The operator's policy isolates commands. When a command cannot be isolated as required, it does not run. Without a policy it can do
// everything that the daemon's user can do. The descriptor and every description say how commands are isolated.
package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

// An Exec runs a process to its end and leaves no process behind; [sandbox.Runner] is one. It returns a nil Exit only when no process was
// started. It calls Output from one goroutine for each stream, and never after Run has returned.
type Exec interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// Config configures where and how commands run. Only the operator sets it.
type Config struct {
	Exec Exec   // starts the processes; required
	Dir  string // absolute path of the working directory; required
	// Shell is the absolute path of the shell. Empty means /bin/bash. The shell must accept --noprofile --norc -c -- command.
	Shell string
	// Env is the whole environment, as name=value. Nil means [DefaultEnv]. Commands inherit nothing from the daemon.
	Env []string
	// Policy isolates commands. Nil means that they have all rights of the user that runs the daemon.
	Policy *sandbox.Policy
	// OutputBudget is the maximum size in bytes of the data and the text of a result. Zero means 48 KiB. The call's streams stdout and
	// stderr always contain all output.
	OutputBudget int
	// Background configures the commands that may continue after their call.
	Background Background
	// Jobs is set when tools for several directories share their background commands and the limits of these. Nil means that New creates
	// separate Jobs.
	Jobs *Jobs
}

// Timeouts of a command, in seconds. The timeout of the attempt is longer than MaxTimeout.
const (
	DefaultTimeout = 120
	MaxTimeout     = 600
)

const (
	defaultShell  = "/bin/bash"
	defaultBudget = 48 << 10
	smallBudget   = 1 << 10 // A smaller budget would leave no space beside the output for the other parts of a result.
	maxArguments  = 64 << 10
)

// DefaultEnv returns the default environment of commands. It is sufficient for ordinary programs and contains nothing from the daemon. Its
// settings prevent programs that wait for a key, such as pagers. HOME is set separately: see [sandbox.Spec.Home].
func DefaultEnv() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"TERM=dumb",
		"PAGER=cat",
		"GIT_TERMINAL_PROMPT=0",
		// git runs programs that the configuration of a repository names. These settings have two effects. git does not accept a directory
		// of the workspace as a bare repository. A git command that only reads does not start the programs in core.pager or core.fsmonitor.
		"GIT_PAGER=cat",
		"GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=safe.bareRepository", "GIT_CONFIG_VALUE_0=explicit",
		"GIT_CONFIG_KEY_1=core.fsmonitor", "GIT_CONFIG_VALUE_1=false",
	}
}

type arguments struct {
	Command     string `json:"command"`
	Timeout     int    `json:"timeout,omitempty"`
	Description string `json:"description,omitempty"`
	// PTY gives the command a terminal.
	PTY *terminal `json:"pty,omitempty"`
	// Input says whether people may type while the command runs. Nil means yes if the command has a terminal, and no otherwise.
	Input *bool `json:"input,omitempty"`
	// With Background, the call returns at once; with BackgroundAfter, it returns after this many seconds. The command continues in both
	// cases.
	Background      bool `json:"background,omitempty"`
	BackgroundAfter int  `json:"background_after,omitempty"`
}

type terminal struct {
	Rows    int `json:"rows,omitempty"`
	Columns int `json:"columns,omitempty"`
}

// typed reports whether people may type the standard input while the command runs.
func (a *arguments) typed() bool {
	if a.Input != nil {
		return *a.Input
	}
	return a.PTY != nil
}

// takesInput reports whether the call accepts typed text that its assessment does not cover. It is false for commands in the background:
// only bash_input types there, and each of its calls is assessed.
func (a *arguments) takesInput() bool { return a.typed() && !a.inBackground() }

const parameters = `{
	"type": "object",
	"properties": {
		"command": {"type": "string", "description": "The command line for bash. Standard input is empty unless input or pty is set.", "minLength": 1},
		"timeout": {"type": "integer", "description": "Seconds after which the command is killed; default 120, longer in the background.", "minimum": 1, "maximum": 600},
		"description": {"type": "string", "description": "What the command is for, in a few words.", "maxLength": 500},
		"pty": {
			"type": "object",
			"description": "Run on a terminal, for programs that need one. Output and errors are then one stream.",
			"properties": {
				"rows": {"type": "integer", "description": "Default 24.", "minimum": 1, "maximum": 1000},
				"columns": {"type": "integer", "description": "Default 80.", "minimum": 1, "maximum": 1000}
			},
			"additionalProperties": false
		},
		"input": {"type": "boolean", "description": "Accept input while the command runs. Default: true with pty, else false."},
		"background": {"type": "boolean", "description": "Return at once with a shell_id; the command, such as a server, continues. See bash_output, bash_input and bash_kill."},
		"background_after": {"type": "integer", "description": "Seconds to wait for the end; a command that takes longer continues in the background.", "minimum": 1, "maximum": 600}
	},
	"required": ["command"],
	"additionalProperties": false
}`

const description = "Runs a bash command in the workspace and returns its output and exit code. Each call starts in the same directory, in a new shell. " +
	"Processes that the command leaves behind are killed. "

const guidance = "Prefer the file tools for reading, writing and searching files. Chain commands with && when one needs the other. " +
	"Do not start programs that wait for input, unless a person can type it."

// New returns the tool bash. When commands may run in the background, it also returns bash_output, bash_input and bash_kill, and the Jobs
// that all these tools share. The caller must close the Jobs.
func New(cfg Config) ([]tool.Tool, *Jobs, error) {
	if cfg.Exec == nil {
		return nil, nil, errors.New("shell: an Exec is required")
	}
	if cfg.Shell == "" {
		cfg.Shell = defaultShell
	}
	if !filepath.IsAbs(cfg.Dir) || !filepath.IsAbs(cfg.Shell) {
		return nil, nil, fmt.Errorf("shell: directory %q and shell %q must be absolute", cfg.Dir, cfg.Shell)
	}
	if cfg.Env == nil {
		cfg.Env = DefaultEnv()
	}
	if cfg.OutputBudget == 0 {
		cfg.OutputBudget = defaultBudget
	}
	if cfg.OutputBudget < smallBudget {
		return nil, nil, fmt.Errorf("shell: output budget %d is below %d", cfg.OutputBudget, smallBudget)
	}
	cfg.Background.fill()
	s := &shell{cfg: cfg}
	mildest := mildestEffects
	bash := typed.New(tool.Descriptor{
		ID:                "bash",
		DisplayName:       "Run a command",
		Description:       description + cfg.isolation().model,
		Category:          "shell",
		Parameters:        json.RawMessage(parameters),
		Effects:           worstEffects,
		Mildest:           &mildest,
		Timeouts:          tool.Timeouts{Attempt: (MaxTimeout + 60) * time.Second},
		MaxArguments:      maxArguments,
		OutputBudget:      cfg.OutputBudget,
		RequiredIsolation: cfg.isolation().required, RequiredNetwork: cfg.isolation().network,
		Guidance: guidance,
		Metadata: map[string]string{"isolation": cfg.isolation().operator},
	}, s.run, typed.WithValidate(validate), typed.WithAssess(s.assess), typed.WithDescribe(s.describe))
	if cfg.Background.Exec == nil {
		return []tool.Tool{bash}, nil, nil
	}
	if s.jobs = cfg.Jobs; s.jobs == nil {
		s.jobs = &Jobs{cfg: cfg.Background}
	}
	return append([]tool.Tool{bash}, s.companions()...), s.jobs, nil
}

type shell struct {
	cfg  Config
	jobs *Jobs // nil when commands cannot run in the background
}

// errTimedOut is the cause of the cancellation when the timeout of a command expires.
var errTimedOut = errors.New("command timed out")

func (s *shell) run(ctx context.Context, call *tool.Call, args arguments) (*tool.Result, error) {
	if args.inBackground() {
		return s.runJob(ctx, call, &args)
	}
	out := newOutput(call.ID, s.cfg.OutputBudget, args.PTY != nil)
	limit := time.Duration(args.Timeout) * time.Second
	if args.Timeout == 0 {
		limit = DefaultTimeout * time.Second
	}
	clock, stop := context.WithTimeoutCause(ctx, limit, errTimedOut)
	defer stop()
	spec := s.spec(call, &args)
	spec.Output = func(stream string, chunk []byte) error {
		out.stream(stream).write(chunk)
		return call.Output(stream, chunk)
	}
	if args.takesInput() {
		in, err := call.Input(controls(spec.Control))
		switch {
		case errors.Is(err, tool.ErrNoReporter): // Without a reporter no client can type, so the input is empty.
		case err != nil:
			return nil, err
		default:
			spec.Stdin = in
			defer in.Close()
		}
	}
	exit, err := s.cfg.Exec.Run(clock, spec)
	return s.ended(ctx, out, exit, err, limit)
}

// spec returns the description of the process for a command, without its input and output.
func (s *shell) spec(call *tool.Call, args *arguments) sandbox.Spec {
	spec := sandbox.Spec{
		Path: s.cfg.Shell,
		// Without --, bash would take a command that begins with - for an option.
		Args: []string{"--noprofile", "--norc", "-c", "--", args.Command},
		Dir:  s.cfg.Dir,
		Env:  s.cfg.Env,
		Home: home(call),
		Tag:  call.ID, Policy: s.cfg.Policy, Harmless: call.ReadOnly,
	}
	if args.typed() || args.PTY != nil || args.inBackground() {
		spec.Control = &sandbox.Control{}
	}
	if p := args.PTY; p != nil {
		spec.Terminal = &sandbox.Size{Rows: cmp.Or(p.Rows, 24), Columns: cmp.Or(p.Columns, 80)}
		spec.Env = slices.Clone(spec.Env)
		for i, pair := range spec.Env {
			if pair == "TERM=dumb" { // DefaultEnv sets TERM=dumb for commands without a terminal, so it is replaced here.
				spec.Env[i] = "TERM=xterm-256color"
			}
		}
	}
	return spec
}

// home returns the name of the home directory for a command. Commands of one thread share a home directory; without a thread, commands of
// one run share it. Without both, the directory is fresh.
func home(call *tool.Call) string {
	o := ownerOf(call)
	if o.thread == "" && o.run == "" {
		return sandbox.FreshHome
	}
	return fmt.Sprintf("bash %q", o)
}

// controls returns the functions by which a client can signal a process and resize its terminal.
func controls(c *sandbox.Control) tool.Controls {
	return tool.Controls{
		Resize: func(rows, columns int) error { return c.Resize(sandbox.Size{Rows: rows, Columns: columns}) },
		Signal: func(name string) error {
			sig, ok := signals()[name]
			if !ok {
				return fmt.Errorf("%s cannot be sent", name)
			}
			return c.Signal(sig)
		},
	}
}

func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP,
		"SIGTSTP": syscall.SIGTSTP, "SIGCONT": syscall.SIGCONT, "SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2,
	}
}

// processReport lists the processes that had to be killed, and the processes whose death could not be confirmed.
func processReport(exit *sandbox.Exit) *tool.ProcessReport {
	r := &tool.ProcessReport{Killed: slices.Clone(exit.Killed), ConfirmedAt: exit.ConfirmedAt}
	for _, p := range exit.Unverified {
		r.KillUnverified = append(r.KillUnverified, p.PID)
	}
	return r
}

func validate(args arguments) error {
	problem := ""
	switch {
	case strings.TrimSpace(args.Command) == "":
		problem = "must not be blank"
	case strings.ContainsRune(args.Command, 0):
		problem = "contains a NUL character, which no command can hold"
	}
	if problem == "" {
		return nil
	}
	return &tool.Error{Code: tool.InvalidArguments, Message: "The command was not run.",
		Violations: []tool.Violation{{Field: "command", Description: problem}}}
}

// TakesInput reports whether a call of bash with these arguments accepts text that people type directly, without bash_input. The command of
// such a call does not show everything that the call may do.
func TakesInput(args tool.Arguments) bool {
	input, given := args.Value()["input"].(bool)
	_, terminal := args.Value()["pty"].(map[string]any)
	background, _ := args.Value()["background"].(bool)
	_, after := args.Value()["background_after"]
	return (given && input || !given && terminal) && !background && !after
}
