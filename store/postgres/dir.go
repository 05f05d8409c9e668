package postgres

import (
	"os"
	"path/filepath"

	"github.com/toold-dev/toold/store/dirlock"
)

// ErrLocked means that another process uses the directory.
var ErrLocked = dirlock.ErrHeld

// lockDir creates a directory and locks it for this process.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	return dirlock.Take(filepath.Join(dir, "lock"))
}
