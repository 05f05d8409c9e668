package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrLocked means that another process has the journal open.
var ErrLocked = errors.New("journal is in use")

// ErrForeign means that the file is not a journal of toold.
var ErrForeign = errors.New("not a journal of toold")

// files is the journal's directory, locked.
type files struct {
	database string
	lock     *os.File
}

func openFiles(dir string) (_ *files, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := takeLock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	f := &files{database: filepath.Join(dir, "journal.db"), lock: lock}
	if err := f.prepare(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// takeLock makes this process the owner of the journal. The lock goes with the process, however that ends.
func takeLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(lock); err != nil {
		defer lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, fmt.Errorf("%w: process %s holds %s", ErrLocked, holder(lock), path)
	}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // a full disk is no reason not to start
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// inheritedFor bounds the wait for a lock whose owner is dead.
const inheritedFor = 2 * time.Second

// flock takes the lock. A process that the last owner was starting when it was killed has the lock until its exec: it is
// waited for, an owner that lives is not.
func flock(lock *os.File) error {
	for deadline := time.Now().Add(inheritedFor); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			return err
		}
		pid, bad := strconv.Atoi(holder(lock))
		if bad != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return err
		}
	}
}

// holder returns the process that the lock's file names.
func holder(lock *os.File) string {
	text := make([]byte, 32)
	n, _ := lock.ReadAt(text, 0)
	return strings.TrimSpace(string(text[:n]))
}

// prepare makes the database's file with the right mode and refuses one that is something else.
func (f *files) prepare() error {
	file, err := os.OpenFile(f.database, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Chmod(0o600); err != nil {
		return err
	}
	var header [72]byte
	switch _, err := io.ReadFull(file, header[:]); {
	case errors.Is(err, io.EOF):
		return nil // new
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	id := uint32(header[68])<<24 | uint32(header[69])<<16 | uint32(header[70])<<8 | uint32(header[71])
	// 0 is a journal whose first transaction is in the write-ahead log still; migrate looks again. So it does after the
	// power went while the first page was written: SQLite's own journal takes that back.
	if _, err := os.Stat(f.database + "-journal"); err == nil {
		return nil
	}
	if string(header[:16]) != "SQLite format 3\x00" || id != applicationID && id != 0 {
		return fmt.Errorf("%w: %s", ErrForeign, f.database)
	}
	return nil
}

// inode names the database's file on this machine.
func (f *files) inode() (string, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(f.database, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}

func (f *files) close() error { return f.lock.Close() }
