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
	digestLoad   = "load" // as the file is when the manifest is read
)

// A pin is a file that a program is made of. One with a digest is looked at before each start.
type pin struct {
	path   string
	digest string // sha256:…; "": it may change

	mu    sync.Mutex
	known state // in which it had the digest; zero: not known
}

// A state shows whether a file was touched.
type state struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec // of the inode, which nobody sets
}

// settled is how old a change must be for a file not to change again within the same tick of its clock.
const settled = 2 * time.Second

// newPin looks at a file for the first time.
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

// verify returns an error unless the file is what was pinned.
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
	file, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would wait
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no file", p.path), err, file.Close())
	}
	return file, nil
}

// sum reads the file, which did not change while it was read.
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
