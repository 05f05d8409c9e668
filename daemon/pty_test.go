package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// pty runs the command line on a real terminal. It emulates the terminal sequences that toold uses. The test fails for an unknown sequence
// and for text beyond the right edge.
type pty struct {
	t      *testing.T
	fd     int // file descriptor of master, kept because master.Fd would make the file blocking
	master *os.File
	cmd    *exec.Cmd
	ended  chan struct{}
	modes  *unix.Termios // modes of the terminal before the command changed them

	mu      sync.Mutex
	w, h    int
	cells   [][]rune
	row     int
	col     int
	other   bool   // the alternate screen is shown
	before  [2]int // cursor position on the main screen while the alternate screen is shown
	resized bool   // the size has changed: output up to the next clearing of the screen was meant for the old size
	colors  map[string]bool
	wrong   []string
	raw     strings.Builder
	rest    []byte
	more    chan struct{} // closed and replaced after each change of the screen
}

// newTerminal returns both ends of a new terminal.
func newTerminal(t *testing.T) (master int, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	return fd, slave
}

func (s *site) terminal(t *testing.T, w, h int, environ []string, args ...string) *pty {
	t.Helper()
	fd, slave := newTerminal(t)
	defer slave.Close()
	var err error
	p := &pty{t: t, fd: fd, master: os.NewFile(uintptr(fd), "/dev/ptmx"), ended: make(chan struct{}), colors: map[string]bool{}, more: make(chan struct{})}
	p.resize(w, h)
	p.modes, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	must(t, err)
	exe, err := os.Executable()
	must(t, err)
	p.cmd = exec.Command(exe, append([]string{"--data", s.data}, args...)...)
	p.cmd.Env = append(append(os.Environ(), asDaemon+"=1", "GORACE=exitcode=66", "TERM=xterm", "NO_COLOR="), environ...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, p.cmd.Start())
	go p.read()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.master.Close()
		if code := p.cmd.ProcessState.ExitCode(); code == 66 {
			t.Errorf("the race detector found something:\n%s", p.text())
		}
	})
	return p
}

func (p *pty) read() {
	b := make([]byte, 8192)
	for {
		n, err := p.master.Read(b)
		if n > 0 {
			p.mu.Lock()
			p.raw.Write(b[:n])
			p.rest = p.draw(append(p.rest, b[:n]...))
			close(p.more)
			p.more = make(chan struct{})
			p.mu.Unlock()
		}
		if err != nil { // EIO: the other side is closed
			_ = p.cmd.Wait()
			close(p.ended)
			return
		}
	}
}

func (p *pty) resize(w, h int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w, p.h, p.resized = w, h, true
	p.row, p.col = 0, 0
	p.clear()
	must(p.t, unix.IoctlSetWinsize(p.fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(w), Row: uint16(h)}))
}

func (p *pty) clear() {
	p.cells = make([][]rune, p.h)
	for i := range p.cells {
		p.cells[i] = []rune(strings.Repeat(" ", p.w))
	}
}

// draw applies output to the screen. When the output ends inside a control sequence, it returns the incomplete sequence.
func (p *pty) draw(b []byte) []byte {
	for len(b) > 0 {
		switch c := b[0]; {
		case c == 0x1b:
			end := 2
			for end < len(b) && (b[end] < 0x40 || b[end] > 0x7e) {
				end++
			}
			if end >= len(b) {
				return b
			}
			p.sequence(string(b[1:end]), b[end])
			b = b[end+1:]
			continue
		case c == '\r':
			p.col = 0
		case c == '\n':
			if p.row++; p.row >= p.h { // the screen scrolls
				p.cells = append(p.cells[1:], []rune(strings.Repeat(" ", p.w)))
				p.row = p.h - 1
			}
		case c < ' ' && c != '\a':
			p.wrong = append(p.wrong, fmt.Sprintf("byte %q", c))
		case c >= ' ':
			if !utf8.FullRune(b) {
				return b
			}
			r, n := utf8.DecodeRune(b)
			p.put(r)
			b = b[n:]
			continue
		}
		b = b[1:]
	}
	return nil
}

func (p *pty) put(r rune) {
	if p.row >= 0 && p.row < p.h && p.col < p.w {
		p.cells[p.row][p.col] = r
	} else if p.other && !p.resized {
		p.wrong = append(p.wrong, fmt.Sprintf("%q at %d, %d of %dx%d", r, p.row, p.col, p.w, p.h))
	}
	p.col++
}

func (p *pty) sequence(text string, final byte) {
	switch {
	case final == 'H':
		_, err := fmt.Sscanf(text, "[%d;%d", &p.row, &p.col)
		if err != nil {
			p.wrong = append(p.wrong, "goto "+text)
		}
		p.row--
		p.col--
	case text == "[" && final == 'K':
		for i := p.col; i < p.w && p.row < p.h; i++ {
			p.cells[p.row][i] = ' '
		}
	case text == "[2" && final == 'J':
		p.resized = false
		p.clear()
	case final == 'A':
		n, err := strconv.Atoi(text[1:])
		if err != nil {
			p.wrong = append(p.wrong, "up "+text)
		}
		p.row = max(p.row-n, 0)
	case text == "[" && final == 'J':
		for i := p.row; i < p.h; i++ {
			p.cells[i] = []rune(strings.Repeat(" ", p.w))
		}
	case final == 'm':
		p.colors[text[1:]] = true
	case text == "[?1049":
		if p.other = final == 'h'; p.other {
			p.before = [2]int{p.row, p.col}
		} else {
			p.row, p.col = p.before[0], p.before[1]
		}
		p.clear()
	case text == "[?2004", text == "[?7", text == "[?25":
	default:
		p.wrong = append(p.wrong, fmt.Sprintf("sequence %q%c", text, final))
	}
}

// text returns the text on the screen.
func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.textLocked()
}

func (p *pty) textLocked() string {
	lines := make([]string, len(p.cells))
	for i, row := range p.cells {
		lines[i] = strings.TrimRight(string(row), " ")
	}
	return strings.Join(lines, "\n")
}

// expect waits until the screen shows all parts.
func (p *pty) expect(parts ...string) {
	p.t.Helper()
	p.until(fmt.Sprintf("a screen with %q", parts), func(screen string) bool {
		for _, part := range parts {
			if !strings.Contains(screen, part) {
				return false
			}
		}
		return true
	})
}

// awaitAbsent waits until the screen no longer shows the part.
func (p *pty) awaitAbsent(part string) {
	p.t.Helper()
	p.until(fmt.Sprintf("a screen without %q", part), func(screen string) bool { return !strings.Contains(screen, part) })
}

func (p *pty) until(what string, holds func(string) bool) {
	p.t.Helper()
	deadline := time.After(hangs)
	for {
		p.mu.Lock()
		screen, more, wrong := p.textLocked(), p.more, p.wrong
		p.mu.Unlock()
		if len(wrong) > 0 {
			p.t.Fatalf("the terminal got %q\n%s", wrong[:min(len(wrong), 5)], screen)
		}
		if holds(screen) {
			return
		}
		select {
		case <-more:
		case <-p.ended:
			p.t.Fatalf("it ended before there was %s\n%s", what, screen)
		case <-deadline:
			p.t.Fatalf("never: %s\n%s", what, screen)
		}
	}
}

// press types keys.
func (p *pty) press(keys string) {
	p.t.Helper()
	_, err := p.master.WriteString(keys)
	must(p.t, err)
}

// end waits until the command exits and returns its exit code.
func (p *pty) end() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(hangs):
		p.t.Fatalf("it does not end\n%s", p.text())
	}
	return p.cmd.ProcessState.ExitCode()
}

// isRestored checks that the terminal has the state that a shell expects.
func (p *pty) isRestored() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	after, err := unix.IoctlGetTermios(p.fd, unix.TCGETS)
	must(p.t, err)
	if *after != *p.modes {
		p.t.Errorf("modes of the terminal are %+v, were %+v", after, p.modes)
	}
	raw := p.raw.String()
	for on, off := range map[string]string{"\x1b[?1049h": "\x1b[?1049l", "\x1b[?25l": "\x1b[?25h", "\x1b[?7l": "\x1b[?7h", "\x1b[?2004h": "\x1b[?2004l"} {
		if strings.LastIndex(raw, off) < strings.LastIndex(raw, on) {
			p.t.Errorf("%q is left without %q", on, off)
		}
	}
}
