package sandbox_test

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/toold-dev/toold/sandbox"
)

// onTerminal returns a Spec for bash on a terminal.
func onTerminal(dir, script string) sandbox.Spec {
	spec := bash(dir, script)
	spec.Terminal = &sandbox.Size{Rows: 33, Columns: 77}
	spec.Control = &sandbox.Control{}
	return spec
}

func TestTerminal(t *testing.T) {
	r := open(t)
	spec := onTerminal(t.TempDir(), `[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all; stty size; echo err >&2; (echo tty > /dev/tty); exit 3`)
	exit, out := run(t, r, spec)
	if want := "all\r\n33 77\r\nerr\r\ntty\r\n"; exit.Code != 3 || out.read("pty") != want {
		t.Errorf("code %d, %q, want %q", exit.Code, out.read("pty"), want)
	}
	mustBeConfirmed(t, exit)
	if err := spec.Control.Signal(syscall.SIGINT); !errors.Is(err, sandbox.ErrNotRunning) {
		t.Errorf("a signal after the end: %v", err)
	}
	if err := spec.Control.Resize(sandbox.Size{Rows: 1, Columns: 1}); !errors.Is(err, sandbox.ErrNotRunning) {
		t.Errorf("another size after the end: %v", err)
	}
}

// The test checks that typed text reaches the process, and that the end of Stdin becomes the end of its input.
func TestTypedIntoATerminal(t *testing.T) {
	spec := onTerminal(t.TempDir(), `stty -echo; echo ready; cat; echo end`)
	in, keys := io.Pipe()
	spec.Stdin = in
	var out screen
	spec.Output = out.output
	ended := make(chan *sandbox.Exit)
	go func() {
		exit, _ := open(t).Run(t.Context(), spec)
		ended <- exit
	}()
	until(t, "cat", func() bool { return strings.Contains(out.read("pty"), "ready") })
	io.WriteString(keys, "hello\n")
	keys.Close()
	exit := <-ended
	if exit.Code != 0 || !strings.Contains(out.read("pty"), "hello\r\nend\r\n") {
		t.Errorf("code %d, %q", exit.Code, out.read("pty"))
	}
}

// The test checks that Ctrl-C, SIGINT and SIGTERM end the foreground process and not the shell. The shell must also get a new terminal
// size.
func TestSignalsOfATerminal(t *testing.T) {
	for name, interrupt := range map[string]func(c *sandbox.Control, keys io.Writer) error{
		"key":    func(_ *sandbox.Control, keys io.Writer) error { _, err := io.WriteString(keys, "\x03"); return err },
		"signal": func(c *sandbox.Control, _ io.Writer) error { return c.Signal(syscall.SIGINT) },
		"other":  func(c *sandbox.Control, _ io.Writer) error { return c.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			spec := onTerminal(dir, `exec bash --norc --noprofile -i`) // an interactive shell gives each job its own process group
			in, keys := io.Pipe()
			defer keys.Close()
			spec.Stdin = in
			var out screen
			spec.Output = out.output
			ended := make(chan error, 1)
			r := open(t)
			ctx, cancel := contextWithCause(t)
			go func() { _, err := r.Run(ctx, spec); ended <- err }()
			io.WriteString(keys, "bash -c 'echo $$ > pids; sleep 1000'\n")
			until(t, "a job", func() bool { return len(pids(t, dir)) == 1 })
			if err := interrupt(spec.Control, keys); err != nil {
				t.Error(err)
			}
			until(t, "the end of what is in front", func() bool { return !exists(pids(t, dir)[0]) })
			if err := spec.Control.Resize(sandbox.Size{Rows: 50, Columns: 132}); err != nil {
				t.Error(err)
			}
			io.WriteString(keys, "stty size\n")
			until(t, "the shell with its new size", func() bool { return strings.Contains(out.read("pty"), "50 132") })
			stop := errors.New("stop")
			cancel(stop)
			if err := <-ended; !errors.Is(err, stop) {
				t.Errorf("run ends with %v", err)
			}
		})
	}
}

// P5: a run on a terminal leaves no process, and unread output does not delay its end.
func TestNothingIsLeftOnATerminal(t *testing.T) {
	r := open(t)
	for _, tt := range strays {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			spec := onTerminal(dir, "( "+tt.script+" ); yes")
			spec.Stdin = strings.NewReader(strings.Repeat("nobody reads this\n", 10_000))
			ctx, cancel := contextWithCause(t)
			spec.Output = func(string, []byte) error {
				if len(pids(t, dir)) > 0 {
					cancel(errors.New("enough"))
				}
				return nil
			}
			exit, err := r.Run(ctx, spec)
			if err == nil || exit == nil {
				t.Fatalf("run: %v, %v", exit, err)
			}
			mustBeDead(t, exit)
			mustHaveEnded(t, pids(t, dir))
		})
	}
}
