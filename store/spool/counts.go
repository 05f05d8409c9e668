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

// counts is the file that a spool leaves behind when it is closed in order: what its ledger had. It goes when the spool is
// opened again, so that nobody trusts it after a crash.
const counts = "counts"

// An owned is what the owner file of a call holds.
type owned struct {
	call.Key
	Thread string `json:",omitempty"`
}

// held says whose a directory is, and how much is in it. ErrNotFound when there is none, or one that a crash left half made.
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

// Counted reports whether the spool knows what threads and namespaces have in it. When it does not, [Spool.Sweep] finds out.
func (s *Spool) Counted() bool { return s.ledger == nil || s.counted }

// Output returns what each namespace has in the spool; nil when that is not bounded.
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

// recall takes the counts that the spool left when it was closed.
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
		err = syncDir(s.cfg.Dir) // or a power cut may bring it back when it is no longer true
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

// remember stores the counts for the next start.
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
