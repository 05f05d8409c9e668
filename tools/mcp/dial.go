package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/sandbox"
)

// endGrace is the time that a process has to exit after its standard input was closed.
const endGrace = 2 * time.Second

// killGrace is the time between SIGTERM and SIGKILL. The sum of endGrace and killGrace is shorter than the engine's grace period for a
// cancelled tool.
const killGrace = time.Second

// errUnstopped is the cause when a server is ended because it did not stop a cancelled call.
var errUnstopped = errors.New("the server did not stop a cancelled call; its processes were killed")

// A line is a connection to a process or an address, before the SDK uses it.
type line struct {
	transport sdk.Transport
	reports   *reports
	cut       func()        // ends the current work at once
	lost      chan struct{} // closed when no more messages will arrive; nil when the SDK notices this itself
	end       func() error  // waits until the connection and its processes have ended, and returns the reason; the reason is nil when the daemon ended the connection
}

// dial starts a connection. It returns no error: errors appear when the SDK connects.
func (s *server) dial(ctx context.Context) line {
	if s.entry.URL != "" {
		return s.dialHTTP(ctx)
	}
	p := newPipe()
	env, home, err := s.resolved(ctx)
	var path string
	if err == nil {
		path, err = s.program(env)
	}
	if err != nil {
		p.fail(err)
		return line{transport: p, reports: p.guard.reports, cut: p.cut, end: p.ended}
	}
	running, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	over := make(chan struct{})
	dead := false // may be read after over is closed
	go func() {
		defer close(over)
		exit, err := s.cfg.Exec.Run(running, sandbox.Spec{
			Path: path, Args: s.entry.Args, Dir: s.dir(), Within: s.entry.Within, Env: env, Home: home, Tag: SourcePrefix + s.entry.Key,
			Stdin: p.input(), Output: p.Output, Policy: s.entry.Policy, Grace: killGrace,
		})
		dead = exit != nil && len(exit.Unverified) == 0
		p.fail(endOf(exit, err))
	}()
	p.kill = func() bool {
		p.fail(errUnstopped)
		kill(errUnstopped)
		<-over
		s.retry()
		return dead
	}
	return line{transport: p, reports: p.guard.reports, cut: p.cut, end: func() error {
		_ = p.Close() // Close always returns nil.
		grace := time.AfterFunc(endGrace, func() { kill(errEnded) })
		<-over
		grace.Stop()
		kill(errEnded)
		return p.ended()
	}}
}

// An outOfMemoryError means that the kernel killed a server for its memory use.
type outOfMemoryError struct{ why string }

func (e *outOfMemoryError) Error() string { return "the server ran out of memory: " + e.why }

// endOf returns the reason why a process ended.
func endOf(exit *sandbox.Exit, err error) error {
	switch {
	case exit == nil:
		return err
	case exit.OOMKills > 0:
		return &outOfMemoryError{exit.OutOfMemory()}
	case exit.Signal != "":
		return fmt.Errorf("the server's process was stopped by signal %s", exit.Signal)
	case err != nil:
		return err
	}
	return fmt.Errorf("the server's process ended with exit code %d", exit.Code)
}

func (s *server) dir() string {
	switch {
	case s.entry.Dir == "":
		return s.cfg.Dir
	case filepath.IsAbs(s.entry.Dir):
		return s.entry.Dir
	}
	return filepath.Join(s.cfg.Dir, s.entry.Dir)
}

// environment returns the environment of the process. Variables of the entry override those of the configuration.
func (s *server) environment() []string {
	named := func(list []string, pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.ContainsFunc(list, func(other string) bool { return strings.HasPrefix(other, name+"=") })
	}
	env := slices.Clone(s.entry.Env)
	for _, pair := range s.cfg.Env {
		if !named(env, pair) {
			env = append(env, pair)
		}
	}
	return env
}

// expand replaces references to secrets in text by their values. The operator wrote the text for this parameter.
func (s *server) expand(ctx context.Context, parameter, text string) (string, error) {
	if s.cfg.Secrets == nil {
		return text, nil
	}
	return s.cfg.Secrets.Expand(ctx, everywhere, SourcePrefix+s.entry.Key, parameter, text)
}

// resolved returns the environment, with the current values of secrets, and the name of the home directory. Each server has its own home
// directory. A server that gets a secret has an empty one at each start.
func (s *server) resolved(ctx context.Context) (env []string, home string, err error) {
	env, home = s.environment(), SourcePrefix+s.entry.Key
	if s.namespace != "" {
		home += "\x00" + s.namespace // The names are unambiguous, because a namespace contains no NUL.
	}
	for i := range s.entry.Env { // The first len(s.entry.Env) variables are those of the entry.
		name, text, _ := strings.Cut(env[i], "=")
		value, err := s.expand(ctx, "env."+name, text)
		if err != nil {
			return nil, "", fmt.Errorf("env %s: %w", name, err)
		}
		if value != text {
			home = sandbox.FreshHome
		}
		env[i] = name + "=" + value
	}
	return env, home, nil
}

// program returns the path of the command. A bare name is searched in the PATH of the process, as a shell does.
func (s *server) program(env []string) (string, error) {
	command := s.entry.Command
	if strings.ContainsRune(command, '/') {
		if !filepath.IsAbs(command) {
			command = filepath.Join(s.dir(), command)
		}
		return command, nil
	}
	for _, pair := range env {
		list, ok := strings.CutPrefix(pair, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, command)
			if info, err := os.Stat(path); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", errors.New("command " + command + " is not in the PATH of the server")
}
