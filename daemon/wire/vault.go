package wire

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A Vault keeps what sign-ins to MCP servers brought, in files that the daemon's user alone can read.
type Vault string // the directory, which need not exist, in one that does

func (v Vault) file(key string) string {
	return filepath.Join(string(v), fmt.Sprintf("%x.json", sha256.Sum256([]byte(key))))
}

// Load returns what is kept under a key.
func (v Vault) Load(key string) ([]byte, bool) {
	text, err := os.ReadFile(v.file(key))
	return text, err == nil
}

// Save has it durable when it returns. One at a time saves under a key.
func (v Vault) Save(key string, text []byte) (err error) {
	switch err := os.Mkdir(string(v), 0o700); {
	case err == nil:
		err = syncDir(filepath.Dir(string(v))) // or it is gone with what it holds after a power loss
		if err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	next := v.file(key) + ".new"
	_ = os.Remove(next) // of a daemon that was killed
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next) // of what was not finished
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Rename(next, v.file(key)); err != nil {
		return err
	}
	return syncDir(string(v))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
