package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/store/sqlite"
)

// TestInheritedLock kills the owner of a journal while the owner is starting a child process. Until the child executes its program, it has
// the open files of its parent, and so the lock. The next owner must not treat the child as a running daemon.
func TestInheritedLock(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		holder int
		ok     bool
	}{
		{"its owner is dead", ended.Process.Pid, true},
		{"its owner is alive", os.Getpid(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			lock, err := os.Create(filepath.Join(dir, "lock"))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(lock, tt.holder)
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			if tt.ok {
				defer time.AfterFunc(100*time.Millisecond, func() { lock.Close() }).Stop()
			}
			if !tt.ok {
				wantLockedAtOnce(t, dir)
				lock.Close()
				return
			}
			s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// wantLockedAtOnce checks that a directory is refused at once. Open waits two seconds only for a process that inherited the lock. The check
// is repeated when a busy machine made the result unclear.
func wantLockedAtOnce(t *testing.T, dir string) {
	t.Helper()
	for again := 0; ; again++ {
		began := time.Now()
		_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		took := time.Since(began)
		if errors.Is(err, sqlite.ErrLocked) && took < 1900*time.Millisecond {
			return
		}
		if !errors.Is(err, sqlite.ErrLocked) || again == 10 {
			t.Fatalf("Open = %v after %v, want ErrLocked at once", err, took)
		}
	}
}
