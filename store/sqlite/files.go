package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/toold-dev/toold/store/dirlock"
)

// ErrLocked means that another process has the journal open.
var ErrLocked = dirlock.ErrHeld

// ErrForeign means that the file is not a journal of toold.
var ErrForeign = errors.New("not a journal of toold")

// files holds the paths and the lock of the journal's directory.
type files struct {
	database string
	lock     *os.File
}

func openFiles(dir string) (*files, error) {
	f, err := lockFiles(dir)
	if err != nil {
		return nil, err
	}
	if err := f.prepare(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// lockFiles locks the directory and does not change its files.
func lockFiles(dir string) (*files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	held, err := dirlock.Take(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	return &files{database: filepath.Join(dir, "journal.db"), lock: held}, nil
}

// prepare creates the database file with the right mode, and refuses a file that is not a journal.
func (f *files) prepare() error {
	file, err := os.OpenFile(f.database, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Chmod(0o600); err != nil {
		return err
	}
	return f.refuseForeign()
}

// readHeader returns the first bytes of a database, and how many of them the file has.
func readHeader(path string) (header [72]byte, n int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return header, 0, err
	}
	defer file.Close()
	n, err = io.ReadFull(file, header[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return header, n, err
}

// refuseForeign refuses a file that is not a journal. It accepts an empty file.
func (f *files) refuseForeign() error {
	header, n, err := readHeader(f.database)
	if err != nil || n == 0 {
		return err
	}
	id := binary.BigEndian.Uint32(header[68:])
	// With application id 0, the file can be a journal in two cases. First: its first transaction may still be in the write-ahead log.
	// Second: the power may have failed while the first page was written; SQLite's rollback journal then restores the page. migrate checks
	// the id again later.
	if _, err := os.Stat(f.database + "-journal"); err == nil {
		return nil
	}
	if string(header[:16]) != "SQLite format 3\x00" || id != applicationID && id != 0 {
		return fmt.Errorf("%w: %s", ErrForeign, f.database)
	}
	return nil
}

// inode returns the device and inode of the database file.
func (f *files) inode() (string, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(f.database, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}

func (f *files) close() error { return f.lock.Close() }
