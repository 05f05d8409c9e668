package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// An answer is the output and the exit code of a command.
type answer struct {
	words  string
	stdout string
	stderr string
	screen string // both outputs in the order of their arrival
	code   int
}

// is returns an error unless the command ended with this exit code.
func (a answer) is(code int) error {
	if a.code != code {
		return fmt.Errorf("%q ended with exit code %d where %d was due:\n%s", a.words, a.code, code, a.screen)
	}
	return nil
}

const commandWithin = 20 * time.Second

// The exit codes that the demo checks ("toold help exit-codes").
const (
	exitFailed      = 1
	exitUsage       = 2
	exitSuspended   = 3
	exitUnreachable = 4
	exitCancelled   = 7
)

// toold runs a command of the command line, and shows it and its output.
func (s *stage) toold(ctx context.Context, show int, args ...string) (answer, error) {
	s.tell.command(typed(args))
	a, err := s.quiet(ctx, args...)
	if err == nil {
		s.tell.output(a.screen, show)
		if a.code != exitUnreachable { // Do not show a command that reached no daemon.
			s.session.add(a.words, a.stderr+a.stdout)
		}
	}
	return a, err
}

// quiet runs a command without showing it. It returns an error when the command could not run or did not end in time. An exit code is not
// an error.
func (s *stage) quiet(ctx context.Context, args ...string) (answer, error) {
	ctx, stop := context.WithTimeout(ctx, commandWithin)
	defer stop()
	cmd := s.command(ctx, args)
	var stdout, stderr bytes.Buffer
	var screen tail
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, &screen), io.MultiWriter(&stderr, &screen)
	err := cmd.Run()
	a := answer{words: typed(args), stdout: stdout.String(), stderr: stderr.String(), screen: screen.String(), code: cmd.ProcessState.ExitCode()}
	if ctx.Err() != nil {
		return a, fmt.Errorf("%q did not end within %v:\n%s", a.words, commandWithin, a.screen)
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return a, nil
	}
	return a, err
}

func (s *stage) command(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.bin, args...)
	cmd.Dir, cmd.Env = s.dir, environment()
	cmd.WaitDelay = time.Second
	return cmd
}

// A line is output of a running command, with its time.
type line struct {
	at     time.Time
	stderr bool
	text   string
}

// A running command delivers its output line by line while it runs.
type running struct {
	lines <-chan line // closed when the command has ended
	done  func() answer
}

// begin starts a command in the background. The command ends with ctx at the latest.
func (s *stage) begin(ctx context.Context, args ...string) (*running, error) {
	s.tell.command(typed(args) + " &")
	cmd := s.command(ctx, args)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines, read := make(chan line, 1024), make(chan struct{}, 2)
	follow := func(r io.Reader, isError bool) {
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			select {
			case lines <- line{time.Now(), isError, scanner.Text()}:
			case <-ctx.Done():
			}
		}
		read <- struct{}{}
	}
	go follow(stdout, false)
	go follow(stderr, true)
	ended := make(chan struct{})
	go func() {
		<-read
		<-read
		_ = cmd.Wait() // Ignore the error: cmd.ProcessState has the outcome.
		close(ended)
		close(lines)
	}()
	return &running{lines: lines, done: func() answer {
		<-ended
		return answer{words: typed(args), code: cmd.ProcessState.ExitCode()}
	}}, nil
}

// showUntil shows the output of the command, up to a line that contains text.
func (s *stage) showUntil(r *running, text string) error {
	late := time.NewTimer(callWait)
	defer late.Stop()
	for {
		select {
		case l, more := <-r.lines:
			if !more {
				return fmt.Errorf("the command ended before it printed %q", text)
			}
			s.tell.printed(l.text)
			if strings.Contains(l.text, text) {
				return nil
			}
		case <-late.C:
			return fmt.Errorf("the command does not say %q", text)
		}
	}
}

// typed returns a command line as a user would type it in a shell.
func typed(args []string) string {
	words := []string{"toold"}
	for _, arg := range args {
		name, value, found := strings.Cut(arg, "=")
		switch {
		case !strings.ContainsAny(arg, " \t\n\"'$&|;<>(){}*?!\\`#~"):
			words = append(words, arg)
		case found && !strings.ContainsAny(name, " {\"'"):
			words = append(words, name+"="+quoted(value))
		default:
			words = append(words, quoted(arg))
		}
	}
	return strings.Join(words, " ")
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
