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
	digestLoad   = "load" // pins a file to the digest that it has when the manifest is read
)

// A pin is one file of a program. When it has a digest, the file is checked before each start.
type pin struct {
	path   string
	digest string // sha256:…; empty means that the file may change

	mu    sync.Mutex
	known state // state of the file when its digest was verified; zero means that it is not verified
}

// A state contains file attributes. When none of them has changed, the content has not changed either, and need not be read again.
type state struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec // change time of the inode, which programs cannot set
}

// settled is the minimum age of a file's change time before its state is trusted. Timestamps have a limited resolution, so a younger file
// could change again and keep the same change time.
const settled = 2 * time.Second

// newPin returns the pin of a file. want is the required digest, or digestLoad, or empty.
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
		return fmt.Errorf("%s has the digest %s; the pinned digest is %s", p.path, digest, p.digest)
	}
	p.known = state{}
	if time.Since(time.Unix(now.changed.Unix())) > settled {
		p.known = now
	}
	return nil
}

func (p *pin) open() (*os.File, error) {
	file, err := os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // Without O_NONBLOCK, opening a named pipe would block.
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is not a regular file", p.path), err, file.Close())
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
		err = fmt.Errorf("%s changed during reading", p.path)
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
