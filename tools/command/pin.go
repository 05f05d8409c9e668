package command

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	digestPrefix = "sha256:"
	digestLoad   = "load" // the digest of the file at the time when the manifest is read
)

// A pin is one file of a program. A file with a digest is checked before each start.
type pin struct {
	path   string
	digest string // sha256:…; empty means that the file may change

	mu    sync.Mutex
	known state // the state in which the file had this digest; zero means unknown
}

// A state shows whether a file was changed.
type state struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec // change time of the inode, which programs cannot set
}

// settled is the minimum age of a file's last change before its state is trusted. A younger file could change again within the same tick of
// the clock and keep the same change time.
const settled = 2 * time.Second

// newPin checks a file for the first time.
func newPin(path, want string) (*pin, error) {
	p := &pin{path: path, digest: want}
	switch want {
	case "":
		file, err := p.open()
		if err != nil {
			return nil, err
		}
		return p, file.Close()
	case digestLoad:
		digest, _, err := p.sum()
		p.digest = digest
		return p, err
	}
	return p, p.verify()
}

// verify returns an error unless the file matches its pin.
func (p *pin) verify() error {
	if p.digest == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known != (state{}) {
		if info, err := os.Stat(p.path); err == nil && stateOf(info) == p.known {
			return nil
		}
	}
	digest, now, err := p.sum()
	if err != nil {
		return err
	}
	if digest != p.digest {
		return fmt.Errorf("%s has the digest %s; pinned is %s", p.path, digest, p.digest)
	}
	p.known = state{}
	if time.Since(time.Unix(now.changed.Unix())) > settled {
		p.known = now
	}
	return nil
}

func (p *pin) open() (*os.File, error) {
	file, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // Without O_NONBLOCK, opening a FIFO would block.
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no file", p.path), err, file.Close())
	}
	return file, nil
}

// sum returns the digest and the state of the file. It returns an error if the file changes while sum reads it.
func (p *pin) sum() (digest string, at state, err error) {
	file, err := p.open()
	if err != nil {
		return "", state{}, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return "", state{}, err
	}
	h := sha256.New()
	if _, err = io.Copy(h, file); err != nil {
		return "", state{}, err
	}
	after, err := file.Stat()
	if err == nil && stateOf(before) != stateOf(after) {
		err = fmt.Errorf("%s changed while it was read", p.path)
	}
	return digestPrefix + hex.EncodeToString(h.Sum(nil)), stateOf(after), err
}

func stateOf(info os.FileInfo) state {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return state{}
	}
	return state{uint64(s.Dev), s.Ino, s.Size, s.Ctim} //nolint:unconvert // Dev is no uint64 on every machine
}
