package sandbox

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/helper"
)

const (
	// FirstHanded is the file descriptor of the first text in [Spec.Handed].
	FirstHanded = 3
	// MostHanded is the largest number of texts that a process can receive.
	MostHanded = helper.MostHanded
)

// An unwrittenText is the part of a text that did not fit into its pipe and is not written yet.
type unwrittenText struct {
	pipe *os.File
	text string
}

// hand creates a pipe for each text in Spec.Handed. It writes as much as fits into the pipe, so it never waits for the process. The rest is
// written while the process reads, and dropped when the run ends.
func (p *pipes) hand(theirs []*os.File, texts []string) ([]*os.File, error) {
	for _, text := range texts {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return theirs, os.NewSyscallError("pipe2", err)
		}
		theirs = append(theirs, os.NewFile(uintptr(fds[0]), "|0"))
		if err := unix.SetNonblock(fds[1], true); err != nil {
			unix.Close(fds[1])
			return theirs, err
		}
		pipe := os.NewFile(uintptr(fds[1]), "|1")
		n, _ := unix.Write(fds[1], []byte(text)) // n is -1 when the write fails.
		if n = max(n, 0); n == len(text) {
			pipe.Close()
			continue
		}
		p.unwritten = append(p.unwritten, unwrittenText{pipe, text[n:]})
	}
	return theirs, nil
}
