package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const chunkSize = 32 << 10

// stream is the daemon's end of an output pipe.
type stream struct {
	name  string
	pipe  *os.File
	peer  string      // path of the other end of a terminal
	late  atomic.Bool // no process of the run lives, so only what the pipe still contains is read
	done  chan struct{}
	stuck bool // the reading ended before end of file; may be read once done is closed
}

// pipes holds the daemon's ends of a process's input and output.
type pipes struct {
	stdin     *os.File
	terminal  *os.File // the daemon's end of a pseudo-terminal; when set, it replaces stdin and is the only stream
	streams   []*stream
	unwritten []unwrittenText // unwritten parts of the texts in Spec.Handed
}

// open returns the process's file descriptors 0, 1 and 2, and stores the daemon's ends. After an error the caller must close both.
func (p *pipes) open(spec *Spec) ([]*os.File, error) {
	var theirs []*os.File
	if spec.Terminal != nil {
		ours, its, err := openTerminal(*spec.Terminal)
		if err != nil {
			return nil, err
		}
		p.terminal = ours
		p.streams = []*stream{{name: "pty", pipe: ours, peer: its.Name(), done: make(chan struct{})}}
		if spec.Stdin != nil {
			p.stdin = ours
		}
		return []*os.File{its, its, its}, nil
	}
	if spec.Stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, null)
	} else {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		theirs, p.stdin = append(theirs, r), w
	}
	for _, name := range []string{"stdout", "stderr"} {
		r, w, err := pipe()
		if err != nil {
			return theirs, err
		}
		theirs = append(theirs, w)
		p.streams = append(p.streams, &stream{name: name, pipe: r, done: make(chan struct{})})
	}
	return theirs, nil
}

// pipe returns the ends of a new pipe. Unlike os.Pipe, it does not register the write end with the poller, because another process gets
// that end. This saves eight system calls.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1"), nil
}

func (p *pipes) close() {
	if p.stdin != nil {
		p.stdin.Close()
	}
	for _, left := range p.unwritten {
		left.pipe.Close()
	}
	for _, s := range p.streams {
		s.pipe.Close()
	}
}

// start begins copying in both directions. Copying stops when the pipes end. Output also stops when the output function returns an error.
func (p *pipes) start(stdin io.Reader, output func(string, []byte) error, broken chan<- error) {
	for _, s := range p.streams {
		go s.read(output, broken)
	}
	switch {
	case p.stdin == nil:
	case p.terminal != nil:
		go typeIn(p.terminal, stdin)
	default:
		go feed(p.stdin, stdin)
	}
	for _, left := range p.unwritten {
		go feed(left.pipe, strings.NewReader(left.text))
	}
}

// feed copies in to the process. It stops when in ends or when the end of the run closes the pipe.
func feed(pipe *os.File, in io.Reader) {
	_, _ = io.Copy(pipe, in) // the process may stop reading at any time
	pipe.Close()
}

// typeIn copies in to a terminal. At the end of in, it sends Ctrl-D. It does not close the terminal, because the terminal also carries the
// output.
func typeIn(terminal *os.File, in io.Reader) {
	const ctrlD = "\x04"
	if _, err := io.Copy(terminal, in); err == nil {
		_, _ = io.WriteString(terminal, ctrlD)
	}
}

// read passes the contents of the pipe to output, until end of file or an error of output. When late is set, it also stops when the pipe is
// empty.
func (s *stream) read(output func(string, []byte) error, broken chan<- error) {
	defer close(s.done)
	buf := make([]byte, chunkSize)
	lateBytes := 0
	for {
		n, err := s.pipe.Read(buf)
		if n > 0 && output != nil {
			if err := output(s.name, buf[:n]); err != nil {
				broken <- fmt.Errorf("output: %w", err)
				return
			}
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if !s.late.Load() {
			continue
		}
		// A pipe contains at most 1 MiB of output of the run. More data must come from a process outside the run.
		if lateBytes += n; n == 0 || lateBytes > 1<<20 {
			s.stuck = true
			return
		}
		// The deadline is set after output has returned, so that a slow output loses no data.
		_ = s.pipe.SetReadDeadline(time.Now().Add(pipeBound))
	}
}

// await waits until all streams have ended, at most for d.
func (p *pipes) await(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, s := range p.streams {
		select {
		case <-s.done:
		case <-timer.C:
			return
		}
	}
}

// finish delivers the remaining contents of the pipes and closes them. It returns the processes that still hold a pipe open. Call it after
// every process of the run is dead.
func (p *pipes) finish() []Process {
	var holders []Process
	for _, s := range p.streams {
		s.late.Store(true)
		_ = s.pipe.SetReadDeadline(time.Now().Add(pipeBound))
	}
	for _, s := range p.streams {
		<-s.done
		if s.stuck {
			holders = append(holders, s.holders()...)
		}
	}
	p.close()
	return holders
}

// holders returns the processes that have the other end of the stream open. They are reported and not killed, because the file descriptor
// may have been sent to a process outside the run.
func (s *stream) holders() []Process {
	link := s.peer
	if link == "" {
		var err error
		if link, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(s.pipe.Fd()))); err != nil {
			return []Process{{Command: "unknown holder of " + s.name + ": " + err.Error()}}
		}
	}
	var found []Process
	paths, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is well formed
	for _, path := range paths {
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		if to, err := os.Readlink(path); err != nil || to != link || pid == os.Getpid() {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			found = append(found, describe(p))
		}
	}
	if len(found) == 0 {
		found = append(found, Process{Command: "unknown holder of " + s.name})
	}
	return found
}
