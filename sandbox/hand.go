package sandbox

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/helper"
)

const (
	// FirstHanded is the descriptor of the first text of [Spec.Handed].
	FirstHanded = 3
	// MostHanded is how many texts a process can be handed.
	MostHanded = helper.MostHanded
)

// A rest is what of a text is not in its pipe yet.
type rest struct {
	pipe *os.File
	text string
}

// hand adds a pipe for each text that is to be handed over. The text is in it before the process begins, so that one that never reads
// holds nobody up; only what has no room waits, as standard input does: until somebody reads or the run ends.
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
		n, _ := unix.Write(fds[1], []byte(text)) // without room it is -1
		if n = max(n, 0); n == len(text) {
			pipe.Close()
			continue
		}
		p.rests = append(p.rests, rest{pipe, text[n:]})
	}
	return theirs, nil
}
