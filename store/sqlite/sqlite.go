// Package sqlite stores the journal in one SQLite database, for a single daemon.
//
// Package group decides what a group of changes writes. This package reads the data for that decision and writes each group in one
// transaction with one sync. Readers have their own connections and hold a snapshot only briefly.
//
// The directory contains journal.db, its write-ahead log, the lock of its owner, a reserve of 16 MiB that is released when the disk is
// full, and the spool. Directories have mode 0700 and files 0600.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/store/spool"
)

// Config configures a Store.
type Config struct {
	Dir string           // Required. Open creates it when it does not exist.
	Now func() time.Time // nil means time.Now
	// Moved confirms that the database was moved or restored on purpose, so that its unfinished calls need not wait for an operator.
	Moved bool
	// MaxBytes limits the size of the database file. Beyond it the disk counts as full. Zero means no limit.
	MaxBytes int64
	// CheckBytes is the size up to which Open checks a database that was not closed cleanly. Zero means 1 GiB.
	CheckBytes int64
	MaxOpen    int // maximum open files of the spool; 0 means 256
	Output     store.OutputLimits
	// FailPoint is for tests. It is called at named points: begin, write, commit, committed, rebuild, rebuilt, and close. The store treats
	// the error that it returns as an error of the disk. Some tests kill the process in it.
	FailPoint func(point string) error
}

// A Store is a journal in a directory.
type Store struct {
	*group.Writer
	rows.Reader

	cfg   Config
	files *files
	clock store.Clock
	id    atomic.Pointer[store.Identity]
	spool *spool.Spool

	writer  *writer
	readers chan *sqlite.Conn

	scanners sync.Pool // *callScanner values for readers
	reserve  *reserve

	cache      listCache
	documents  documentCache
	ids        *idFilter
	learned    chan struct{} // closed when learn has returned
	tombstones atomic.Bool   // The journal may have tombstones.

	unchecked bool // The last end was not clean, and the file was too large to check at start.

	trimming sync.Mutex
	trimmed  int64 // the position up to which Trim has handled the calls that were created in their final state

	shutdown func() error
}

var _ interface {
	store.Store
	store.RecordReader
} = (*Store)(nil)

const readerCount = 4

// Open opens the journal in cfg.Dir, or creates it, and begins an epoch. Beginning an epoch needs disk space, for which Open may use the
// reserve. If there is not enough space, the journal can be read, and changes fail with ErrFull. The first change that finds space then
// begins the epoch. The caller closes the Store.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.CheckBytes == 0 {
		cfg.CheckBytes = 1 << 30
	}
	if cfg.FailPoint == nil {
		cfg.FailPoint = func(string) error { return nil }
	}
	f, err := openFiles(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, files: f, readers: make(chan *sqlite.Conn, readerCount), ids: newIDFilter(), learned: make(chan struct{})}
	s.Reader = rows.NewReader(s, &queries)
	s.writer = newWriter(s)
	s.Writer = group.New(group.Config{Database: s.writer})
	s.shutdown = sync.OnceValue(s.close)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	if err := s.openWriter(ctx); err != nil {
		return nil, fmt.Errorf("journal in %s: %w", cfg.Dir, err)
	}
	for range readerCount {
		conn, err := openReader(f.database, 4096)
		if err != nil {
			return nil, fmt.Errorf("journal in %s: %w", cfg.Dir, err)
		}
		s.readers <- conn
	}
	if s.spool, err = spool.New(spool.Config{Dir: filepath.Join(cfg.Dir, "spool"), MaxOpen: cfg.MaxOpen, Limits: cfg.Output}); err != nil {
		return nil, err
	}
	s.reserve = newReserve(s.reservePath(), cfg.Now)
	go s.Write()
	go s.learn()
	return s, nil
}

// openWriter opens the writing connection, migrates the schema and begins the epoch.
func (s *Store) openWriter(ctx context.Context) error {
	conn, err := openConn(s.files.database, s.cfg.MaxBytes)
	if err != nil {
		return err
	}
	s.writer.conn = conn
	if err := migrate(conn, schema); err != nil {
		return err
	}
	m, err := readMeta(conn)
	if err != nil {
		return err
	}
	if m.epoch > 0 && !m.clean {
		if err := s.afterUncleanEnd(ctx, conn); err != nil {
			return err
		}
	}
	s.clock.Resume(m.clock)
	err = s.beginEpoch(conn, m)
	if errors.Is(err, store.ErrFull) && os.Remove(s.reservePath()) == nil {
		err = s.beginEpoch(conn, m) // Try again, because removing the reserve has freed space.
	}
	s.writer.begun.Store(err == nil)
	if err != nil && !errors.Is(err, store.ErrFull) {
		return err
	}
	return s.writer.recall(m)
}

func (s *Store) reservePath() string { return filepath.Join(s.cfg.Dir, "reserve") }

// afterUncleanEnd checks the database and empties the write-ahead log of the last epoch. It empties the log because each start reads all of
// it. If a daemon were killed before its first checkpoint again and again, the log would grow with each start.
func (s *Store) afterUncleanEnd(ctx context.Context, conn *sqlite.Conn) error {
	info, err := os.Stat(s.files.database)
	if err != nil {
		return err
	}
	if s.unchecked = info.Size() > s.cfg.CheckBytes; !s.unchecked {
		if err := check(ctx, conn); err != nil {
			return err
		}
	}
	err = mapError(pragma(conn, "wal_checkpoint(TRUNCATE)", nil))
	if errors.Is(err, store.ErrFull) { // Ignore a full disk: the committed changes are safe in the log.
		return nil
	}
	return err
}

// Now returns the time of the store's clock, which never runs backwards.
func (s *Store) Now() call.Stamp {
	return s.clock.Now(func() (machine, now time.Time) {
		now = s.cfg.Now()
		return now, now
	})
}

// Identity returns the store's id and its current epoch.
func (s *Store) Identity() store.Identity { return *s.id.Load() }

// Spool returns the spool, which holds the output of this store's calls.
func (s *Store) Spool() store.Spool { return output{s.spool, s.reserve} }

// Full reports that the disk is full, and that new calls must be refused so that running calls can use the reserve. It returns false again
// when there is space and the epoch is stored.
func (s *Store) Full() bool { return s.reserve.full() || !s.writer.mayPublish() }

// SweepSpool removes the output of unknown calls. Call it at start, before calls run.
func (s *Store) SweepSpool(ctx context.Context) (removed int, err error) {
	return s.spool.Sweep(s.remembers(ctx))
}

// SpoolCounted reports whether the spool usage of threads and namespaces is known, or not needed because there are no limits. If not,
// SweepSpool counts it.
func (s *Store) SpoolCounted() bool { return s.spool.Counted() }

// Close waits for submitted changes, writes the mark of a clean end and closes the store. After a failure it only closes.
func (s *Store) Close() error { return s.shutdown() }

func (s *Store) close() error {
	s.Stop()
	err := s.cfg.FailPoint("close")
	if err == nil && s.Refusal() == nil && s.writer.begun.Load() {
		err = s.endEpoch()
	}
	s.Refuse(store.ErrClosed)
	<-s.learned
	return errors.Join(err, s.release())
}

// release closes everything that is open.
func (s *Store) release() (err error) {
	s.Refuse(store.ErrClosed)
	if s.spool != nil {
		err = s.spool.Close()
		for range readerCount {
			err = errors.Join(err, (<-s.readers).Close())
		}
	} else { // Open has failed, so nobody uses a reader. Close those that are open.
		for len(s.readers) > 0 {
			err = errors.Join(err, (<-s.readers).Close())
		}
	}
	if s.writer.conn != nil {
		err = errors.Join(err, s.writer.conn.Close())
	}
	return errors.Join(err, s.files.close())
}
