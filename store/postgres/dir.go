package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrLocked means that another process uses the directory.
var ErrLocked = errors.New("directory is in use")

// lockDir makes this process the only one that uses a directory.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close()
		text := make([]byte, 32)
		n, _ := lock.ReadAt(text, 0)
		return nil, fmt.Errorf("%w: process %s holds %s", ErrLocked, strings.TrimSpace(string(text[:n])), lock.Name())
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
