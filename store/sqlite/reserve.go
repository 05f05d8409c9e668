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

// reserveSize is the disk space that is kept free so that running calls can finish when the disk is full. On a small file system, an eighth
// of its size is used instead.
const reserveSize = 16 << 20

// A reserve is a file that is deleted when the disk is full. It is created again when twice its size is free on the disk.
type reserve struct {
	path string
	now  func() time.Time

	mu      sync.Mutex
	there   bool
	checked time.Time
}

func newReserve(path string, now func() time.Time) *reserve {
	r := &reserve{path: path, now: now}
	r.there = r.create() == nil
	return r
}

// full reports whether the reserve is currently released. It tries to create the reserve again, at most once a second.
func (r *reserve) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.there {
		return false
	}
	if now := r.now(); now.Sub(r.checked).Abs() >= time.Second {
		r.checked = now
		r.there = r.create() == nil
	}
	return !r.there
}

// release deletes the reserve and reports whether that succeeded.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.there {
		return false
	}
	r.there, r.checked = false, r.now()
	return os.Remove(r.path) == nil
}

// An output is the spool together with the reserve of the same disk.
type output struct {
	*spool.Spool
	reserve *reserve
}

// Append implements [store.Spool]. When the disk is full, Append releases the reserve once, so that running calls can finish.
func (o output) Append(key call.Key, thread, name string, b []byte) (int64, error) {
	offset, err := o.Spool.Append(key, thread, name, b)
	if errors.Is(err, store.ErrFull) && o.reserve.release() {
		return o.Spool.Append(key, thread, name, b)
	}
	return offset, err
}

func (r *reserve) create() error {
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

// allocate reserves the blocks of a file. It writes zeros when the file system does not support fallocate.
func allocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		_, err = f.WriteAt(make([]byte, size), 0)
	}
	return err
}
