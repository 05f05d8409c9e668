package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// counts is the name of the file in which a spool saves its ledger when it is closed cleanly. Opening the spool removes the file. After a
// crash there is therefore no file, and [Spool.Sweep] counts again.
const counts = "counts"

// An owned is the content of the owner file in a call's directory.
type owned struct {
	call.Key
	Thread string `json:",omitempty"`
}

// held returns the owner of a directory and the number of bytes in it. It returns ErrNotFound when there is no directory, or when a crash
// left the directory without an owner file.
func held(dir string) (of owned, bytes int64, err error) {
	b, err := os.ReadFile(filepath.Join(dir, owner))
	if err != nil {
		return of, 0, notFound(err)
	}
	if json.Unmarshal(b, &of) != nil {
		return of, 0, store.ErrNotFound
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return of, 0, notFound(err)
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil && f.Name() != owner {
			bytes += info.Size()
		}
	}
	return of, bytes, nil
}

// Counted reports whether the usage of threads and namespaces is known, or not needed because there are no limits. If not, [Spool.Sweep]
// counts it.
func (s *Spool) Counted() bool { return s.ledger == nil || s.counted }

// Output returns the bytes of each namespace in the spool. It returns nil when there are no limits.
func (s *Spool) Output() map[string]int64 {
	namespaces, _ := s.ledger.Counts()
	return namespaces
}

type kept struct {
	Namespaces map[string]int64
	Threads    []keptThread
}

type keptThread struct {
	store.ThreadKey
	Bytes int64
}

// recall loads the counts that the spool saved when it was closed.
func (s *Spool) recall() error {
	path := filepath.Join(s.cfg.Dir, counts)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		err = syncDir(s.cfg.Dir) // Without this sync, a power loss could restore an outdated file.
	}
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	var k kept
	if s.ledger == nil || json.Unmarshal(b, &k) != nil || k.Namespaces == nil {
		return nil //nolint:nilerr // Sweep counts anew then
	}
	threads := make(map[store.ThreadKey]int64, len(k.Threads))
	for _, t := range k.Threads {
		threads[t.ThreadKey] = t.Bytes
	}
	s.ledger.Reset(k.Namespaces, threads)
	s.counted = true
	return nil
}

// remember saves the counts for the next start.
func (s *Spool) remember() error {
	if s.ledger == nil || !s.counted {
		return nil
	}
	var k kept
	var threads map[store.ThreadKey]int64
	k.Namespaces, threads = s.ledger.Counts()
	for key, n := range threads {
		k.Threads = append(k.Threads, keptThread{key, n})
	}
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	path := filepath.Join(s.cfg.Dir, counts)
	if err := writeDurably(path+".new", b); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(s.cfg.Dir)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeDurably(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}
