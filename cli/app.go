// Package cli is the command line of toold. It is a client of the API, with one file for each verb.
//
// The package does not import the daemon. A program that contains a daemon adds the commands that work on the local machine with [App.Add].
// Those commands read their settings from the [App] and return errors from [Usagef], [Fail] or [Exit].
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

// An App is the command line and its connections to the process: streams, environment and clock. Tests use pipes as streams.
type App struct {
	Name     string // the name that started the program, os.Args[0]
	Version  string
	In       io.Reader
	Out, Err io.Writer
	Environ  []string
	Now      func() time.Time
	// The next fields say whether In, Out and Err are terminals. On a terminal the output of tools is escaped, and colour, a spinner and
	// questions are possible.
	InTerminal, OutTerminal, ErrTerminal bool

	Output string // the form of the data for commands that have --output, see [App.OutputFlag]

	connection connection
	added      []addition
	editing    atomic.Int32 // not zero while an editor handles Ctrl-C itself, and for half a second after it has ended
	started    bool         // a command has begun to run; every error before that is a usage error
}

// New returns the command line for this process and its standard streams.
func New(version string) *App {
	return &App{
		Name: os.Args[0], Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Now: time.Now,
		InTerminal: isTerminal(os.Stdin), OutTerminal: isTerminal(os.Stdout), ErrTerminal: isTerminal(os.Stderr),
	}
}

// Main runs one command line and returns the exit code. The first SIGINT or SIGTERM cancels the command. A second one kills the process at
// once.
func (a *App) Main(args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if s == os.Interrupt && a.editing.Load() > 0 { // Ctrl-C reaches every process of the terminal, also the editor
				continue
			}
			signal.Stop(signals) // restores the default action: a second signal kills the process
			cancel()
			return
		}
	}()
	return a.Run(ctx, args)
}

// Program returns the program name for commands that users copy from messages. It keeps a path as it was typed, because the program may not
// be in PATH.
func (a *App) Program() string {
	if !strings.Contains(a.Name, "/") {
		return "toold"
	}
	return ShellWord(a.Name)
}

// ShellWord quotes s so that a shell reads it as one word.
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

// color reports whether a stream gets colours: it must be a terminal, NO_COLOR must be unset or empty, and TERM must not be "dumb".
func (a *App) color(terminal bool) bool {
	return terminal && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}

// lookup returns the value of a variable, or "" when it is not set. The last entry of a name wins.
func lookup(environ []string, name string) string {
	for _, e := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}
