package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/spool"
)

// reserveSize is what running calls have for their ends once the disk is full. On a small file system it is an eighth.
const reserveSize = 16 << 20

// A room is the reserve on the disk: a file that is given up when the disk is full and made again when there is space
// for it twice over.
type room struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	there   bool
	checked time.Time
}

func newRoom(path string, now func() time.Time) *room {
	r := &room{path: path, now: now}
	r.there = r.reserve() == nil
	return r
}

// full reports whether the reserve is gone. At most once a second it tries to make it again.
func (r *room) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.there {
		return false
	}
	if now := r.now(); now.Sub(r.checked).Abs() >= time.Second {
		r.checked = now
		r.there = r.reserve() == nil
	}
	return !r.there
}

// release gives the reserve up and reports whether there was one.
func (r *room) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.there {
		return false
	}
	r.there, r.checked = false, r.now()
	return os.Remove(r.path) == nil
}

// An output is the spool, which fills the same disk.
type output struct {
	*spool.Spool
	room *room
}

// Append implements [store.Spool]. A full disk releases the reserve, once, for calls that can still end.
func (o output) Append(key call.Key, thread, name string, b []byte) (int64, error) {
	offset, err := o.Spool.Append(key, thread, name, b)
	if errors.Is(err, store.ErrFull) && o.room.release() {
		return o.Spool.Append(key, thread, name, b)
	}
	return offset, err
}

func (r *room) reserve() error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(r.path), &st); err != nil {
		return err
	}
	size := min(reserveSize, uint64(st.Bsize)*st.Blocks/8)
	if info, err := os.Stat(r.path); err == nil && uint64(info.Size()) == size {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if uint64(st.Bsize)*st.Bavail < 2*size {
		return syscall.ENOSPC
	}
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := allocate(f, int64(size)); err != nil {
		os.Remove(r.path)
		return err
	}
	return nil
}

// allocate takes the blocks, by writing where the file system cannot promise them.
func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		_, err = f.WriteAt(make([]byte, size), 0)
	}
	return err
}
