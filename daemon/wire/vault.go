package wire

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A Vault is a directory of files with the credentials from sign-ins to MCP servers. Only the daemon's user can read them.
type Vault string // the path; the directory is created if its parent exists

func (v Vault) file(key string) string {
	return filepath.Join(string(v), fmt.Sprintf("%x.json", sha256.Sum256([]byte(key))))
}

// Load returns the stored text of a key.
func (v Vault) Load(key string) ([]byte, bool) {
	text, err := os.ReadFile(v.file(key))
	return text, err == nil
}

// Save stores the text of a key. The text is durable when Save returns. Calls for the same key must not run concurrently.
func (v Vault) Save(key string, text []byte) (err error) {
	switch err := os.Mkdir(string(v), 0o700); {
	case err == nil:
		err = syncDir(filepath.Dir(string(v))) // Without this, a power loss could remove the directory with its files.
		if err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	next := v.file(key) + ".new"
	_ = os.Remove(next) // A killed daemon may have left this file.
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next) // Remove the incomplete file.
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
