// Package daemon assembles the parts of toold: store, registry, engine, plugins, tools and endpoints, and its command line.
package daemon

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/toold-dev/toold/cli/show"
)

// version is what [Main] was given.
var version = "unknown"

// Main is the program toold with its command line, and ends the process. A program that is to start its own isolated processes calls
// [sandbox.Help] first.
func Main(v string) {
	version = v
	ctx, cancel := context.WithCancel(context.Background())
	a := &app{
		name: os.Args[0], in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(), now: time.Now,
		inTerminal: isTerminal(os.Stdin), outTerminal: isTerminal(os.Stdout), errTerminal: isTerminal(os.Stderr),
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range signals {
			if s == os.Interrupt && a.editing.Load() { // the terminal tells all who are on it
				continue
			}
			signal.Stop(signals) // a second signal ends at once
			cancel()
			return
		}
	}()
	os.Exit(a.run(ctx, os.Args[1:]))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// An app is the command line with what it is connected to. Tests give it pipes.
type app struct {
	name     string // by which it was started
	in       io.Reader
	out, err io.Writer
	environ  []string
	now      func() time.Time
	// On a terminal foreign bytes are escaped, and there may be colour, a spinner and questions.
	inTerminal, outTerminal, errTerminal bool

	connection connection
	output     string      // of commands that have --output
	editing    atomic.Bool // Ctrl-C is for the editor
	started    bool        // a command began to run: what goes wrong from here on is no usage error by itself
}

// program is how commands begin that people may copy: a path stays one, because what it leads to may not be in PATH.
func (a *app) program() string {
	if !strings.Contains(a.name, "/") {
		return "toold"
	}
	return shellWord(a.name)
}

// shellWord writes a word so that a shell reads it as one.
func shellWord(s string) string {
	odd := func(r rune) bool {
		return !strings.ContainsRune("/._-+@%:=,", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	if s != "" && !strings.ContainsFunc(s, odd) {
		return s
	}
	return show.Line("'" + strings.ReplaceAll(s, "'", `'\''`) + "'")
}

func (a *app) getenv(name string) string { return lookup(a.environ, name) }

// color reports whether a stream takes colours: only a terminal does, and NO_COLOR has the last word.
func (a *app) color(terminal bool) bool {
	return terminal && a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
}
