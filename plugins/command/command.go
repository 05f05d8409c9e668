// Package command runs programs as hooks.
//
// Each question starts a process, with the question as JSON on standard input. The process prints its answer as JSON on standard output.
//
//   - Exit code 0 means that the answer is valid. An empty answer does not object to the call.
//   - Exit code 2 refuses the call, with standard error as the reason.
//   - Anything else is a failure: another exit code, a signal, text that is not a JSON object, too much output, or a missed deadline.
//
// It is a protocol error when the JSON object contains something that this kind of hook must not return.
//
// The answer is used only after the process and all its descendants are dead.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
)

// A Starter starts processes. Run returns when the process and all its descendants are dead. When ctx ends, Run kills them at once. Output
// gets what the process prints to "stdout" and "stderr", from one goroutine for each stream. When Output returns an error, Run ends the
// process.
type Starter interface {
	Run(ctx context.Context, p Process) (Exit, error)
}

// A Process describes one process that runs a hook's program.
type Process struct {
	Path   string
	Args   []string
	Dir    string
	Env    []string // the whole environment
	CallID string
	Stdin  []byte
	Output func(stream string, chunk []byte) error
}

// An Exit says how a process ended.
type Exit struct {
	Code   int    // -1 when Signal is set
	Signal string // such as SIGKILL
	Alive  int    // number of processes that may still be alive; 0 when all are known to be dead
}

// Defaults and limits.
const (
	DefaultAtOnce    = 16
	DefaultMaxOutput = 1 << 20
	maxReason        = 4 << 10 // maximum number of bytes of standard error in a reason
)

// Config configures one program. Only the operator sets it.
type Config struct {
	Name      string   // name of the hook; required
	Command   []string // an absolute path and arguments; required
	Dir       string   // working directory; empty means /
	Env       []string // NAME=value, in addition to PATH, LANG and TOOLD_HOOK
	Workspace string   // directory of the tools; the program gets it as the member cwd of the question
	// Workspaces maps a namespace with a separate workspace to this workspace. For such a namespace, the program gets it instead of the
	// field Workspace.
	Workspaces map[string]string
	Documents  []external.DocumentKey
	AtOnce     int         // maximum number of concurrent processes; 0 means 16
	MaxOutput  int         // maximum size of each output stream in bytes; 0 means 1 MiB
	Start      Starter     // required
	Log        *zap.Logger // nil disables logging
}

// A Hook runs a program as a hook of every kind except Filter. A Filter would need a process during the whole of each call; a HookService
// is better for that.
type Hook struct {
	cfg  Config
	line *external.Line
}

var (
	_ hook.Rewrite = (*Hook)(nil)
	_ hook.Gate    = (*Hook)(nil)
	_ hook.Admit   = (*Hook)(nil)
	_ hook.Before  = (*Hook)(nil)
	_ hook.After   = (*Hook)(nil)
)

// New returns the hook of a program. It starts no process.
func New(cfg Config) (*Hook, error) {
	switch {
	case cfg.Name == "" || cfg.Start == nil:
		return nil, errors.New("a command hook requires a name and a process starter")
	case len(cfg.Command) == 0 || !filepath.IsAbs(cfg.Command[0]):
		return nil, errors.New("a command must be an absolute path and its arguments")
	}
	if cfg.Dir == "" {
		cfg.Dir = "/"
	}
	if cfg.AtOnce == 0 {
		cfg.AtOnce = DefaultAtOnce
	}
	if cfg.MaxOutput == 0 {
		cfg.MaxOutput = DefaultMaxOutput
	}
	return &Hook{cfg: cfg, line: external.NewLine(external.Config{Name: cfg.Name, AtOnce: cfg.AtOnce, Log: cfg.Log})}, nil
}

// Health returns counts of the program's answers and failures, and the last failure.
func (h *Hook) Health() external.Health { return h.line.Health() }

// answer is a program's answer: a refusal with a reason, or a JSON object. When it is neither, the program does not object.
type answer struct {
	refused bool
	reason  string
	object  []byte
}

// ask runs the program and passes its answer to read. An error of read counts as a failure of the hook.
func (h *Hook) ask(ctx context.Context, q *question, read func(answer) error) error {
	return h.line.Ask(ctx, func(ctx context.Context) error {
		stdin, err := q.encode()
		if err != nil {
			return err
		}
		s, err := h.run(ctx, q.CallID, stdin)
		if err != nil {
			return err
		}
		return read(s)
	})
}

func (h *Hook) run(ctx context.Context, callID string, stdin []byte) (answer, error) {
	var stdout, stderr bounded
	stdout.most, stderr.most = h.cfg.MaxOutput, h.cfg.MaxOutput
	exit, err := h.cfg.Start.Run(ctx, Process{
		Path: h.cfg.Command[0], Args: h.cfg.Command[1:], Dir: h.cfg.Dir, Env: append(h.baseEnv(), h.cfg.Env...), CallID: callID, Stdin: stdin,
		Output: func(stream string, chunk []byte) error {
			if stream == "stderr" {
				return stderr.add(chunk)
			}
			return stdout.add(chunk)
		},
	})
	switch {
	case err != nil:
		return answer{}, err
	case exit.Alive > 0:
		return answer{}, fmt.Errorf("%d of its processes may still run", exit.Alive)
	case exit.Signal != "":
		return answer{}, fmt.Errorf("ended by signal %s%s", exit.Signal, behind(stderr.text()))
	}
	switch exit.Code {
	case 0:
		return answer{object: bytes.TrimSpace(stdout.b)}, nil
	case 2:
		return answer{refused: true, reason: stderr.text()}, nil
	}
	return answer{}, fmt.Errorf("exit code %d%s", exit.Code, behind(stderr.text()))
}

// baseEnv returns the environment of every program. The configuration may add to it.
func (h *Hook) baseEnv() []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TOOLD_HOOK=" + h.cfg.Name}
}

// bounded stores output up to a limit.
type bounded struct {
	b    []byte
	most int
}

func (o *bounded) add(chunk []byte) error {
	if len(o.b)+len(chunk) > o.most {
		return fmt.Errorf("printed more than %d bytes", o.most)
	}
	o.b = append(o.b, chunk...)
	return nil
}

// text returns the start of the output as a reason, as valid UTF-8 without surrounding white space.
func (o *bounded) text() string {
	b := o.b[:min(len(o.b), maxReason)]
	return strings.TrimSpace(strings.ToValidUTF8(string(b), ""))
}

func behind(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
