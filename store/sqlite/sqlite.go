// Package sqlite is the journal in one SQLite database: what a single daemon uses.
//
// Package group decides what a group of changes writes; this package reads what that takes, and writes it in one transaction:
// the disk is asked once for all of them. Readers have connections of their own and hold a snapshot for a moment only.
//
// The directory holds journal.db, its write-ahead log, the lock of its owner, a reserve of 16 MiB that is given back when
// the disk is full, and the spool. Directories are 0700 and files 0600.
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

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/store/spool"
)

// Config says where the journal is and how it behaves.
type Config struct {
	Dir string           // required; made when it is not there
	Now func() time.Time // nil: time.Now
	// Moved acknowledges that the database was moved or restored: its calls are its own again.
	Moved bool
	// MaxBytes bounds the database file; beyond it the disk counts as full. 0 is no bound.
	MaxBytes int64
	// CheckBytes is the size up to which a database that was not closed in order is looked through before it serves.
	// 0 means 1 GiB.
	CheckBytes int64
	MaxOpen    int // descriptors of the spool; 0 means 256
	Output     store.OutputLimits
	// FailPoint, for tests, is called at the named points of a write: begin, write, commit, committed, and close. Its
	// error is taken for the disk's. Some tests kill the process in it.
	FailPoint func(point string) error
}

// A Store is a journal on a disk.
type Store struct {
	*group.Writer
	rows.Reader

	cfg   Config
	files *files
	clock *clock
	id    atomic.Pointer[store.Identity]
	spool *spool.Spool

	writer  *writer
	readers chan *sqlite.Conn

	scanners sync.Pool // of *callScanner, for theirs
	room     *room

	cache      listCache
	documents  documentCache
	ids        *idFilter
	learned    chan struct{} // closed when learn has ended
	tombstones atomic.Bool   // there may be some

	unchecked bool // the end was not clean and the file too large to be checked at start

	trimming sync.Mutex
	trimmed  int64 // position up to which Trim has seen to calls that ended as they were created

	shutdown func() error
}

var _ interface {
	store.Store
	store.RecordReader
} = (*Store)(nil)

const readerCount = 4

// Open opens the journal in cfg.Dir, or makes it, and begins an epoch. Without space for that, the reserve included, the
// journal can be read, changes are refused with ErrFull, and the first change that finds space begins the epoch. The caller
// closes it.
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
	s.room = newRoom(s.reserve(), cfg.Now)
	go s.Write()
	go s.learn()
	return s, nil
}

// openWriter opens the connection that writes, brings the schema up to date and begins the epoch.
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
	s.clock = newClock(s.cfg.Now, m.clock)
	err = s.beginEpoch(conn, m)
	if errors.Is(err, store.ErrFull) && os.Remove(s.reserve()) == nil {
		err = s.beginEpoch(conn, m) // the reserve is for this, too
	}
	s.writer.begun.Store(err == nil)
	if err != nil && !errors.Is(err, store.ErrFull) {
		return err
	}
	return s.writer.recall(m)
}

func (s *Store) reserve() string { return filepath.Join(s.cfg.Dir, "reserve") }

// afterUncleanEnd looks through the database and empties the log that the last epoch left: each start reads the whole
// log, and a daemon that is killed before it has written enough for a checkpoint would leave a longer one each time.
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
	err = known(pragma(conn, "wal_checkpoint(TRUNCATE)", nil))
	if errors.Is(err, store.ErrFull) { // what was committed is safe in the log
		return nil
	}
	return err
}

// Now is the store's clock.
func (s *Store) Now() time.Time { return s.clock.now() }

// Identity returns what makes this store this one.
func (s *Store) Identity() store.Identity { return *s.id.Load() }

// Spool returns the output of the calls of this store.
func (s *Store) Spool() store.Spool { return output{s.spool, s.room} }

// Full reports that the disk was full and that new calls should be refused, so that the reserve serves those that run.
// It goes back to false by itself once there is room again, and the journal has the epoch.
func (s *Store) Full() bool { return s.room.full() || !s.writer.mayPublish() }

// SweepSpool removes the output of calls that the journal does not know. It is for the start, before calls run.
func (s *Store) SweepSpool(ctx context.Context) (removed int, err error) {
	return s.spool.Sweep(s.remembers(ctx))
}

// SpoolCounted reports whether it is known what threads and namespaces have in the spool; SweepSpool finds out.
func (s *Store) SpoolCounted() bool { return s.spool.Counted() }

// Close waits for what was submitted, writes the mark of a clean end and closes. After a failure it only closes.
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

// release closes all that is open.
func (s *Store) release() (err error) {
	s.Refuse(store.ErrClosed)
	if s.spool != nil {
		err = s.spool.Close()
		for range readerCount {
			err = errors.Join(err, (<-s.readers).Close())
		}
	} else { // Open failed half-way
		for len(s.readers) > 0 {
			err = errors.Join(err, (<-s.readers).Close())
		}
	}
	if s.writer.conn != nil {
		err = errors.Join(err, s.writer.conn.Close())
	}
	return errors.Join(err, s.files.close())
}
