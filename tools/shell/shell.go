// Package shell provides the tool bash, which runs a command line.
//
// The command runs in a new session, with the working directory and the environment that the operator configured. The model chooses
// neither. The output is streamed while the command runs. An exit code other than 0 is not an error of the call: the model reads it and
// continues. When the command ends, all processes that it started are ended too.
//
// [Split] finds in the text of a command what it will do, for rules and people. This is advice only, because a text does not limit what a
// command does.
//
// The operator's policy isolates commands. A command does not run when it cannot be isolated as required. Without a policy it can do
// everything that the daemon's user can do. The descriptor and every description state the isolation.
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

// An Exec runs a process to its end and leaves no process behind; [sandbox.Runner] is one. The Exit is nil exactly when no process was
// started. Each stream calls Output from one goroutine, and never after Run has returned.
type Exec interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// Config configures where and how commands run. The operator sets all of it.
type Config struct {
	Exec Exec   // required
	Dir  string // the working directory, an absolute path; required
	// Shell is an absolute path. Empty means /bin/bash. The program must accept --noprofile --norc -c -- command.
	Shell string
	// Env is the whole environment, as name=value. Nil means [DefaultEnv]. Commands inherit nothing from the daemon.
	Env []string
	// Policy isolates commands. Nil means that they have all rights of the user that runs the daemon.
	Policy *sandbox.Policy
	// OutputBudget is the limit in bytes for the data and the text of a result. Zero means 48 KiB. The streams stdout and stderr of the
	// call always carry all output.
	OutputBudget int
	// Background configures the commands that may outlive their call.
	Background Background
	// Jobs lets these tools share the jobs, and their limits, with the tools for another directory. Nil means that they have separate jobs.
	Jobs *Jobs
}

// Timeouts of a command, in seconds. The deadline of the call is later than the longest timeout.
const (
	DefaultTimeout = 120
	MaxTimeout     = 600
)

const (
	defaultShell  = "/bin/bash"
	defaultBudget = 48 << 10
	smallBudget   = 1 << 10 // With a smaller budget, a result has no space for anything but the output.
	maxArguments  = 64 << 10
)

// DefaultEnv returns the default environment of commands. It suffices for ordinary programs, contains nothing from the daemon, and names no
// program that waits for a key. HOME is not in it: see [sandbox.Spec.Home].
func DefaultEnv() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"TERM=dumb",
		"PAGER=cat",
		"GIT_TERMINAL_PROMPT=0",
		// git runs programs that the configuration of a repository names. A directory of the workspace must not pass as a repository. A
		// command that only reads must not start the programs in core.pager or core.fsmonitor.
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
	// Input says whether people may type while the command runs. Nil means yes with a terminal and no without one.
	Input *bool `json:"input,omitempty"`
	// Background returns at once and BackgroundAfter after this many seconds. The command continues.
	Background      bool `json:"background,omitempty"`
	BackgroundAfter int  `json:"background_after,omitempty"`
}

type terminal struct {
	Rows    int `json:"rows,omitempty"`
	Columns int `json:"columns,omitempty"`
}

// typed reports whether standard input is text that is typed while the command runs.
func (a *arguments) typed() bool {
	if a.Input != nil {
		return *a.Input
	}
	return a.PTY != nil
}

// takesInput reports whether text can be typed that the assessment of the call does not see. It is false in the background: there only
// bash_input types, and its calls are assessed separately.
func (a *arguments) takesInput() bool { return a.typed() && !a.inBackground() }

const parameters = `{
	"type": "object",
	"properties": {
		"command": {"type": "string", "description": "The command line for bash. Standard input is empty unless input or pty says otherwise.", "minLength": 1},
		"timeout": {"type": "integer", "description": "Seconds after which the command is killed; 120 when left out, longer in the background.", "minimum": 1, "maximum": 600},
		"description": {"type": "string", "description": "What the command is for, in a few words.", "maxLength": 500},
		"pty": {
			"type": "object",
			"description": "Run on a terminal, for programs that need one. Output and errors come together then.",
			"properties": {
				"rows": {"type": "integer", "description": "24 when left out.", "minimum": 1, "maximum": 1000},
				"columns": {"type": "integer", "description": "80 when left out.", "minimum": 1, "maximum": 1000}
			},
			"additionalProperties": false
		},
		"input": {"type": "boolean", "description": "Take what is typed while it runs. When left out: true with pty, else false."},
		"background": {"type": "boolean", "description": "Return at once with a shell_id and let the command run on, such as a server. See bash_output, bash_input and bash_kill."},
		"background_after": {"type": "integer", "description": "Seconds to wait for the end; a command that takes longer runs on in the background.", "minimum": 1, "maximum": 600}
	},
	"required": ["command"],
	"additionalProperties": false
}`

const description = "Runs a bash command in the workspace and returns its output and exit code. Each call starts in the same directory, in a new shell. " +
	"Processes that the command leaves behind are killed. "

const guidance = "Prefer the file tools for reading, writing and searching files. Chain commands with && when one needs the other. " +
	"Do not start programs that wait for input, unless somebody is there to type."

// New returns the tool bash. When commands can run in the background, it also returns bash_output, bash_input and bash_kill, and the Jobs
// that the tools share. The caller must close the Jobs.
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
	jobs *Jobs // nil when nothing runs in the background
}

// errTimedOut is the context cause when the timeout of a command expires.
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
		case errors.Is(err, tool.ErrNoReporter): // No client can type, so the input is empty.
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

// spec returns the process of a command, without its input and output.
func (s *shell) spec(call *tool.Call, args *arguments) sandbox.Spec {
	spec := sandbox.Spec{
		Path: s.cfg.Shell,
		// Without --, bash would read a command that begins with a dash as an option.
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
			if pair == "TERM=dumb" { // DefaultEnv sets it for commands without a terminal.
				spec.Env[i] = "TERM=xterm-256color"
			}
		}
	}
	return spec
}

// home returns the name of the home directory of a command: that of the call's thread, or of its run when there is no thread. Without both,
// the directory is fresh.
func home(call *tool.Call) string {
	o := ownerOf(call)
	if o.thread == "" && o.run == "" {
		return sandbox.FreshHome
	}
	return fmt.Sprintf("bash %q", o)
}

// controls returns what typed input and signals can do with a process.
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

// processReport lists the processes that had to be killed, and those that were not seen to die.
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

// TakesInput reports whether a call of bash with these arguments accepts typing other than by bash_input. The text of such a call does not
// show all that it may do.
func TakesInput(args tool.Arguments) bool {
	input, said := args.Value()["input"].(bool)
	_, terminal := args.Value()["pty"].(map[string]any)
	background, _ := args.Value()["background"].(bool)
	_, after := args.Value()["background_after"]
	return (said && input || !said && terminal) && !background && !after
}
