// Package spool stores the output of calls in files: the streams that they print and the artifacts that they save.
//
// Each call has a directory, with a file for each of its streams. File names are hashes, so no name that a client chooses reaches the file
// system. A file named call in each directory names the owner, for [Spool.Sweep] and for operators. Appended bytes are in the page cache of
// the kernel, so they survive kill -9.
//
// When there are limits, the spool counts the bytes of each thread and namespace.
package spool

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// Config configures a Spool.
type Config struct {
	Dir     string // New creates it with mode 0700 when it does not exist.
	MaxOpen int    // maximum open files; 0 means 256
	Limits  store.OutputLimits
}

// A Spool is a directory of streams. Only one process at a time may use it.
type Spool struct {
	cfg     Config
	ledger  *store.Ledger // nil when there are no limits
	counted bool          // the ledger is complete; written only before calls run

	mu      sync.Mutex
	streams map[call.Key]map[string]*stream
	recent  *list.List // *stream values with an open file, the most recently used first
	closed  bool
}

var (
	_ store.Spool      = (*Spool)(nil)
	_ store.SpoolSizer = (*Spool)(nil)
)

// A stream holds the file of a stream that is in use or was used recently.
type stream struct {
	key  call.Key
	name string

	users   int           // number of current users, guarded by Spool.mu; above zero, the file stays open
	element *list.Element // in recent; guarded by Spool.mu

	mu      sync.Mutex
	file    *os.File
	size    int64
	removed bool // the stream was removed; a goroutine that waited for mu must look up the stream again
}

// New opens the spool in cfg.Dir.
func New(cfg Config) (*Spool, error) {
	if cfg.MaxOpen == 0 {
		cfg.MaxOpen = 256
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(cfg.Dir, trash)); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	s := &Spool{cfg: cfg, ledger: store.NewLedger(cfg.Limits), streams: map[call.Key]map[string]*stream{}, recent: list.New()}
	return s, s.recall()
}

// Free returns the free bytes on the file system of a directory that this user may use.
func Free(dir string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

func (s *Spool) dir(key call.Key) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(key.Namespace), key.Namespace, key.ID))
	h := hex.EncodeToString(sum[:20])
	return filepath.Join(s.cfg.Dir, h[:2], h[2:])
}

func (s *Spool) path(key call.Key, name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir(key), hex.EncodeToString(sum[:20]))
}

// use invokes f with the open stream. No other goroutine uses the stream meanwhile.
func (s *Spool) use(key call.Key, thread, name string, create bool, f func(*stream) error) error {
	for {
		st, err := s.acquire(key, name)
		if err != nil {
			return err
		}
		st.mu.Lock()
		again := st.removed
		if !again {
			if err = s.open(st, create, thread); err == nil {
				err = f(st)
			}
		}
		opened := st.file != nil
		st.mu.Unlock()
		s.release(st, opened)
		if !again {
			return err
		}
	}
}

func (s *Spool) acquire(key call.Key, name string) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	if s.streams[key] == nil {
		s.streams[key] = map[string]*stream{}
	}
	st := s.streams[key][name]
	if st == nil {
		st = &stream{key: key, name: name}
		s.streams[key][name] = st
	}
	st.users++
	return st, nil
}

// release ends a use of a stream. It closes the least recently used files when too many are open.
func (s *Spool) release(st *stream, opened bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.users--
	switch {
	case st.removed: // The stream is no longer in s.streams.
	case !opened:
		if st.users == 0 {
			s.forgetLocked(st)
		}
	case st.element == nil:
		st.element = s.recent.PushFront(st)
	default:
		s.recent.MoveToFront(st.element)
	}
	for e := s.recent.Back(); e != nil && s.recent.Len() > s.cfg.MaxOpen; {
		old := e.Value.(*stream)
		e = e.Prev()
		if old.users == 0 {
			s.forgetLocked(old)
		}
	}
}

// forgetLocked closes and drops a stream without users.
func (s *Spool) forgetLocked(st *stream) {
	if st.element != nil {
		s.recent.Remove(st.element)
		st.element = nil
	}
	if st.file != nil {
		st.file.Close() // Ignore the error: write(2) has acknowledged all writes.
		st.file = nil
	}
	if s.streams[st.key][st.name] == st {
		delete(s.streams[st.key], st.name)
		if len(s.streams[st.key]) == 0 {
			delete(s.streams, st.key)
		}
	}
}

// Release closes the unused open files of a call.
func (s *Spool) Release(key call.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.streams[key] {
		if st.users == 0 {
			s.forgetLocked(st)
		}
	}
}

// Close closes all files and saves the counts. Call it when no goroutine appends any more.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var all []*stream
	for _, streams := range s.streams {
		for _, st := range streams {
			all = append(all, st)
		}
	}
	s.mu.Unlock()
	for _, st := range all {
		s.retire(st)
	}
	return s.remember()
}

// retire waits until no goroutine uses a stream, and then closes and drops it.
func (s *Spool) retire(st *stream) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	st.removed = true
	s.forgetLocked(st)
}

func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return store.ErrNotFound
	}
	return err
}
