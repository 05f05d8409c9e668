package memory

import (
	"context"
	"io"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// A Spool holds streams in memory.
type Spool struct {
	ledger *store.Ledger

	mu      sync.Mutex
	streams map[call.Key]map[string][]byte
	threads map[call.Key]string
	closed  bool
}

var (
	_ store.Spool      = (*Spool)(nil)
	_ store.SpoolSizer = (*Spool)(nil)
)

// NewSpool returns an empty spool.
func NewSpool(limits store.OutputLimits) *Spool {
	return &Spool{ledger: store.NewLedger(limits), streams: map[call.Key]map[string][]byte{}, threads: map[call.Key]string{}}
}

// Reopen closes s and returns a spool with the same streams.
func (s *Spool) Reopen() *Spool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return &Spool{ledger: s.ledger, streams: s.streams, threads: s.threads}
}

// Append adds b to a stream.
func (s *Spool) Append(key call.Key, thread, name string, b []byte) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, store.ErrClosed
	}
	if err := s.ledger.Take(key, thread, int64(len(b))); err != nil {
		return 0, err
	}
	if s.streams[key] == nil {
		s.streams[key], s.threads[key] = map[string][]byte{}, thread
	}
	offset := int64(len(s.streams[key][name]))
	s.streams[key][name] = append(s.streams[key][name], b...)
	return offset, nil
}

// ReadAt reads from a stream like io.ReaderAt.
func (s *Spool) ReadAt(key call.Key, name string, p []byte, off int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.streamLocked(key, name)
	if err != nil {
		return 0, err
	}
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Size returns how many bytes a stream has.
func (s *Spool) Size(key call.Key, name string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.streamLocked(key, name)
	return int64(len(b)), err
}

func (s *Spool) streamLocked(key call.Key, name string) ([]byte, error) {
	if s.closed {
		return nil, store.ErrClosed
	}
	b, ok := s.streams[key][name]
	if !ok {
		return nil, store.ErrNotFound
	}
	return b, nil
}

// Release does nothing: no file is open.
func (s *Spool) Release(call.Key) {}

// Remove deletes all streams of a call.
func (s *Spool) Remove(key call.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	for _, b := range s.streams[key] {
		s.ledger.Add(key, s.threads[key], -int64(len(b)))
	}
	delete(s.streams, key)
	delete(s.threads, key)
	return nil
}

// Close makes the spool refuse all later requests.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// Sizes implements [store.SpoolSizer].
func (s *Spool) Sizes(_ context.Context, visit func(call.Key, int64)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	for key, streams := range s.streams {
		n := 0
		for _, b := range streams {
			n += len(b)
		}
		visit(key, int64(n))
	}
	return nil
}
