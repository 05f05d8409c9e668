package inbox

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A terminal shows lines and delivers typed input. Only one goroutine uses it.
type terminal struct {
	in, out *os.File
	before  *term.State
	shown   []string // current content of the screen; nil means unknown
	typed   chan []byte
	wake    *os.File // closed, together with quit, to stop the reader
	quit    chan struct{}
	ended   chan struct{}
}

// The sequences that take and restore the terminal. They switch to the alternate screen, turn off line wrapping, and mark pasted text so
// that it is not treated as keys.
const (
	takes = "\x1b[?1049h\x1b[?2004h\x1b[?7l\x1b[?25l\x1b[2J"
	gives = "\x1b[?7h\x1b[?25h\x1b[?2004l\x1b[?1049l"
)

// take puts the terminal into raw mode and onto the alternate screen, until give.
func (t *terminal) take() error {
	before, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return err
	}
	t.before, t.shown = before, nil
	r, w, err := os.Pipe()
	if err != nil {
		return errors.Join(err, term.Restore(int(t.in.Fd()), before))
	}
	t.typed, t.wake, t.quit, t.ended = make(chan []byte), w, make(chan struct{}), make(chan struct{})
	go t.read(r)
	_, err = t.out.WriteString(takes)
	return err
}

// give restores the terminal. Unread input stays for the next program.
func (t *terminal) give() error {
	if t.before == nil {
		return nil
	}
	close(t.quit)
	t.wake.Close()
	<-t.ended
	_, err := t.out.WriteString(gives)
	err = errors.Join(err, term.Restore(int(t.in.Fd()), t.before))
	t.before = nil
	return err
}

// read delivers typed input until the other end of wake is closed. It closes typed when the terminal is gone.
func (t *terminal) read(wake *os.File) {
	defer close(t.ended)
	defer wake.Close()
	if Keys(int(t.in.Fd()), wake, t.typed, t.quit) {
		close(t.typed)
	}
}

// Keys delivers input typed at a terminal until the other end of wake, or quit, is closed. Later input stays for the next reader. It
// reports whether the terminal was closed.
func Keys(in int, wake *os.File, typed chan<- []byte, quit <-chan struct{}) (closed bool) {
	wait := []unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(wait, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return true
		}
		if wait[1].Revents != 0 {
			return false
		}
		if wait[0].Revents == 0 {
			continue
		}
		b := make([]byte, 4096)
		n, err := unix.Read(in, b)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil || n == 0 {
			return true
		}
		select {
		case typed <- b[:n]:
		case <-quit:
			return false
		}
	}
}

// size returns the size of the terminal, or 80x24 when it is unknown.
func (t *terminal) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// forget makes the next draw write every line.
func (t *terminal) forget() { t.shown = nil }

// draw shows lines, none of which may be wider than the terminal. It puts the cursor after the given column of row; a negative row hides
// it. It writes only lines that changed.
func (t *terminal) draw(lines []string, row, column int) error {
	var b strings.Builder
	b.WriteString("\x1b[?25l")
	if len(t.shown) != len(lines) {
		b.WriteString("\x1b[2J")
		t.shown = make([]string, len(lines))
	}
	for i, line := range lines {
		if t.shown[i] != line {
			fmt.Fprintf(&b, "\x1b[%d;1H\x1b[K%s", i+1, line)
			t.shown[i] = line
		}
	}
	if row >= 0 {
		fmt.Fprintf(&b, "\x1b[%d;%dH\x1b[?25h", row+1, column+1)
	}
	_, err := t.out.WriteString(b.String())
	return err
}
