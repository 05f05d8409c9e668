// Package dirlock gives one process at a time exclusive use of a directory.
package dirlock

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrHeld means that another process has the lock.
var ErrHeld = errors.New("data directory is in use")

// Take locks the file at path for this process and writes the process id into it. It fails with [ErrHeld] when another process has the
// lock. The kernel releases the lock when the process ends.
func Take(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(lock); err != nil {
		defer lock.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		return nil, fmt.Errorf("%w: process %s holds %s", ErrHeld, holder(lock), path)
	}
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // Ignore a full disk, because it must not prevent a start.
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// inheritedFor is how long flock waits for a child process that still holds the lock of a dead owner.
const inheritedFor = 2 * time.Second

// flock takes the lock. If the last owner was killed while it was starting a child process, the child holds the lock until it executes its
// program. flock waits for such a child, but not for a running owner.
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

// holder returns the process that the lock file names.
func holder(lock *os.File) string {
	text := make([]byte, 32)
	n, _ := lock.ReadAt(text, 0)
	return strings.TrimSpace(string(text[:n]))
}
