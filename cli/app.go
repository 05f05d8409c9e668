// Package cli is the command line of toold: a client of the API, with one file for each verb.
//
// It knows nothing of the daemon. A program that has one adds the commands that work on its own machine ([App.Add]); these
// read what they need from the [App] and end with [Usagef], [Fail] or [Exit].
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/toold-dev/toold/cli/show"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// An App is the command line with what it is connected to. Tests give it pipes.
type App struct {
	Name     string // by which it was started
	Version  string
	In       io.Reader
	Out, Err io.Writer
	Environ  []string
	Now      func() time.Time
	// On a terminal foreign bytes are escaped, and there may be colour, a spinner and questions.
	InTerminal, OutTerminal, ErrTerminal bool

	Output string // form of the data, of commands that have --output ([App.OutputFlag])

	connection connection
	added      []addition
	editing    atomic.Bool // Ctrl-C is for the editor
	started    bool        // a command began to run: what goes wrong from here on is no usage error by itself
}

// New returns the command line of this process.
func New(version string) *App {
	return &App{
		Name: os.Args[0], Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Now: time.Now,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr),
	}
}

// Main runs one command line until it ends, or a signal ends it, and returns the exit code. A second signal ends the process at once.
func (a *App) Main(args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if s == os.Interrupt && a.editing.Load() { // the terminal signals all of its processes
				continue
			}
			signal.Stop(signals) // a second signal ends at once
			cancel()
			return
		}
	}()
	return a.Run(ctx, args)
}

// Program returns how commands begin that people may copy: a path stays one, because what it leads to may not be in PATH.
func (a *App) Program() string {
	if !strings.Contains(a.Name, "/") {
		return "toold"
	}
	return ShellWord(a.Name)
}

// ShellWord returns a word so that a shell reads it as one.
func ShellWord(s string) string {
	odd := func(r rune) bool {
		return !strings.ContainsRune("/._-+@%:=,", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	if s != "" && !strings.ContainsFunc(s, odd) {
		return s
	}
	return show.Line("'" + strings.ReplaceAll(s, "'", `'\''`) + "'")
}

func (a *App) getenv(name string) string { return lookup(a.Environ, name) }

// color reports whether a stream takes colours: only a terminal does, and NO_COLOR has the last word.
func (a *App) color(terminal bool) bool {
	return terminal && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

// lookup returns the variable's value; empty when it is not set.
func lookup(environ []string, name string) string {
	for _, e := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}
