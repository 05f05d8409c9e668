package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/toold-dev/toold/cli/show"
)

// A screen keeps data, progress and the spinner apart when they share one terminal. Its methods are safe for concurrent use.
type screen struct {
	color, spins bool
	program      string
	now          func() time.Time
	stop         chan struct{}
	done         chan struct{}

	mu       sync.Mutex
	out, err io.Writer
	outOpen  bool   // the last line of data on the terminal is not complete
	status   string // text of the spinner; "" hides it
	since    time.Time
	drawn    bool
}

// newScreen starts the spinner if standard error is a terminal. The caller must close the screen.
func (a *App) newScreen() *screen {
	s := &screen{
		program: a.Program(), color: a.color(a.ErrTerminal), spins: a.ErrTerminal && a.color(true), now: a.Now,
		out: a.Out, err: a.Err, stop: make(chan struct{}), done: make(chan struct{}),
	}
	if !s.spins {
		close(s.done)
		return s
	}
	go s.spin()
	return s
}

func (s *screen) spin() {
	defer close(s.done)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-s.stop:
			return
		case <-tick.C:
			s.draw(i)
		}
	}
}

func (s *screen) draw(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == "" || s.outOpen { // the cursor is after incomplete data
		return
	}
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	fmt.Fprint(s.err, "\r\x1b[K"+string(frames[i%len(frames)])+" "+show.Short(s.status, 60)+" "+show.Duration(s.now().Sub(s.since).Truncate(100*time.Millisecond)))
	s.drawn = true
}

func (s *screen) eraseLocked() {
	if s.drawn {
		fmt.Fprint(s.err, "\r\x1b[K")
		s.drawn = false
	}
}

// wait sets the text of the spinner. An empty text stops it.
func (s *screen) wait(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	if text != s.status {
		s.status, s.since = text, s.now()
	}
}

// say prints lines of progress to standard error.
func (s *screen) say(text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	if s.outOpen {
		fmt.Fprint(s.err, "\n")
		s.outOpen = false
	}
	fmt.Fprint(s.err, text)
}

// data writes to standard output. onTerminal means that standard output is the same terminal as progress.
func (s *screen) data(text string, onTerminal bool) error {
	if text == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	_, err := io.WriteString(s.out, text)
	s.outOpen = onTerminal && text[len(text)-1] != '\n'
	return err
}

func (s *screen) close() {
	s.wait("")
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	<-s.done
}

// view returns the View for standard error.
func (s *screen) view() show.View { return show.View{Now: s.now(), Color: s.color, Program: s.program} }

// OutView returns the View for standard output.
func (a *App) OutView() show.View {
	return show.View{Now: a.Now(), Color: a.color(a.OutTerminal), Program: a.Program()}
}

// errView returns the View for standard error.
func (a *App) errView() show.View {
	return show.View{Now: a.Now(), Color: a.color(a.ErrTerminal), Program: a.Program()}
}
