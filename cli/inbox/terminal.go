package inbox

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A terminal is drawn on line by line and gives what is typed. It is used by one goroutine.
type terminal struct {
	in, out *os.File
	before  *term.State
	shown   []string // what stands there; nil: nobody knows
	typed   chan []byte
	wake    *os.File // closed, with quit, to end the reader
	quit    chan struct{}
	ended   chan struct{}
}

// What the terminal does for us, and what is undone: another screen, so that what stood there comes back; pasted text is
// marked, so that it is never taken for keys; no line wraps.
const (
	takes = "\x1b[?1049h\x1b[?2004h\x1b[?7l\x1b[?25l\x1b[2J"
	gives = "\x1b[?7h\x1b[?25h\x1b[?2004l\x1b[?1049l"
)

// take makes the terminal ours until give.
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

// give returns the terminal as it was. What was typed and not read is left to the next program.
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

// read passes on what is typed until the other end of wake is closed, and closes typed when the terminal has gone.
func (t *terminal) read(wake *os.File) {
	defer close(t.ended)
	defer wake.Close()
	if Keys(int(t.in.Fd()), wake, t.typed, t.quit) {
		close(t.typed)
	}
}

// Keys passes on what is typed at a terminal until the other end of wake, or quit, is closed: what is typed later is left to who
// comes next. It reports whether the terminal has gone.
func Keys(in int, wake *os.File, typed chan<- []byte, quit <-chan struct{}) (gone bool) {
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

// size is that of the terminal, and 80x24 when it does not say.
func (t *terminal) size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// forget makes the next draw write everything.
func (t *terminal) forget() { t.shown = nil }

// draw shows lines, of which none is wider than the terminal, and puts the cursor behind column of row; a negative row
// hides it. Only lines that changed are written.
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
