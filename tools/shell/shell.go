// Package shell has the tool bash, which runs a command line.
//
// The command runs in a session of its own, in the working directory and with the environment that the operator
// configured; the model chooses neither. What it writes is streamed while it runs. An exit code is an answer, not an
// error: the model reads it and continues. When the command ends, whatever it started ends too.
//
// What a command is about to do is read from its text ([Split]), for rules and people. That is advice: a text cannot be
// held to what it looks like.
//
// A command is isolated as the operator's policy says, and does not run when it cannot be. Without a policy it can do what the
// daemon's user can. The descriptor and every description say what holds.
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

// An Exec runs a process to its end and leaves nothing of it behind; [sandbox.Runner] is one. The Exit is nil exactly
// when no process was started. Output is called from one goroutine for each stream, and never after Run returned.
type Exec interface {
	Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error)
}

// Config says where and how commands run. All of it is the operator's.
type Config struct {
	Exec Exec   // required
	Dir  string // the working directory, absolute; required
	// Shell is an absolute path; empty means /bin/bash. It must take --noprofile --norc -c -- command.
	Shell string
	// Env is the whole environment, as name=value; nil means [DefaultEnv]. Nothing is inherited from the daemon.
	Env []string
	// Policy isolates commands; nil: they have all rights of the user that runs the daemon.
	Policy *sandbox.Policy
	// OutputBudget bounds data and text of a result, in bytes; 0 means 48 KiB. All output goes to the streams stdout
	// and stderr of the call, whatever its size.
	OutputBudget int
	// Background says what may outlive its call.
	Background Background
	// Jobs are those of the tools for another directory, which these tools share with their bounds; nil: they have their own.
	Jobs *Jobs
}

// The clocks of a command, in seconds. The call's own deadline lies behind the longest.
const (
	DefaultTimeout = 120
	MaxTimeout     = 600
)

const (
	defaultShell  = "/bin/bash"
	defaultBudget = 48 << 10
	smallBudget   = 1 << 10 // below it there is no room for what a result says beside the output
	maxArguments  = 64 << 10
)

// DefaultEnv returns the environment of commands: enough for ordinary programs, nothing of the daemon's, and no program that
// waits for a key. HOME is not in it: see [sandbox.Spec.Home].
func DefaultEnv() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"TERM=dumb",
		"PAGER=cat",
		"GIT_TERMINAL_PROMPT=0",
		// git runs what a repository's configuration names. A directory of the workspace must not pass for a repository,
		// nor a command that reads start what core.pager or core.fsmonitor says.
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
	// Input says whether people may type while it runs; nil: with a terminal they may.
	Input *bool `json:"input,omitempty"`
	// Background returns at once, BackgroundAfter after so many seconds; the command continues.
	Background      bool `json:"background,omitempty"`
	BackgroundAfter int  `json:"background_after,omitempty"`
}

type terminal struct {
	Rows    int `json:"rows,omitempty"`
	Columns int `json:"columns,omitempty"`
}

// typed reports whether standard input is what is typed while the command runs.
func (a *arguments) typed() bool {
	if a.Input != nil {
		return *a.Input
	}
	return a.PTY != nil
}

// takesInput reports whether something can be typed that nobody sees when a call is assessed. Into the background only
// bash_input types, which is a call of its own.
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

// New returns the tool bash and, when commands can run in the background, bash_output, bash_input and bash_kill with the
// jobs that they share; the caller closes these.
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
	jobs *Jobs // nil: nothing runs in the background
}

// errTimedOut is the cause by which a command's own clock ends it.
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
		case errors.Is(err, tool.ErrNoReporter): // nobody could type: the input is empty
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

// spec is the process of a command, without its input and output.
func (s *shell) spec(call *tool.Call, args *arguments) sandbox.Spec {
	spec := sandbox.Spec{
		Path: s.cfg.Shell,
		// Without -- a command that begins with a dash would be read as an option.
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
			if pair == "TERM=dumb" { // of DefaultEnv, where there is no terminal
				spec.Env[i] = "TERM=xterm-256color"
			}
		}
	}
	return spec
}

// home names the home directory of a command: that of the thread that the call belongs to. Without a thread or a run it is
// fresh.
func home(call *tool.Call) string {
	o := ownerOf(call)
	if o.thread == "" && o.run == "" {
		return sandbox.FreshHome
	}
	return fmt.Sprintf("bash %q", o)
}

// controls are what the keyboard can do with a process.
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

// processReport says what had to be killed, and what could not be seen to die.
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

// TakesInput reports whether a call of bash with these arguments can be typed into by others than bash_input: then its text
// does not say all that it may do.
func TakesInput(args tool.Arguments) bool {
	input, said := args.Value()["input"].(bool)
	_, terminal := args.Value()["pty"].(map[string]any)
	background, _ := args.Value()["background"].(bool)
	_, after := args.Value()["background_after"]
	return (said && input || !said && terminal) && !background && !after
}
