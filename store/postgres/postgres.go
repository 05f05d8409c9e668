// Package postgres is the journal in one schema of a PostgreSQL database: for installations that have a server already, and for a second
// daemon that stands by.
//
// One goroutine writes. It takes the changes that wait, Full ones first, and commits it as one transaction, an array for each
// column: of one round trip when the changes need no more than what the owner knows of their calls, else of two, of which
// the first reads all that they require. A transaction whose answer is lost is looked for before anything else is done; what cannot be found out
// ends the store. Readers have connections of their own.
//
// One daemon owns a journal: it holds an advisory lock on a connection of its own, and each of its transactions locks the
// one row of meta and looks whether the epoch there is still its own. So a daemon that lost the lock unknowingly, cut off
// or stopped, can change nothing in the journal once another has begun an epoch. What it can do elsewhere has other bounds:
// effects ask [Store.Own] right before they start; an owner without a proof for its patience ends; its successor leaves the
// attempts of that owner alone for [Store.Hold].
//
// What calls print stays in files, in the directory of the daemon.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/store/spool"
)

// Config says where the journal is and how it behaves.
type Config struct {
	// URL names the database as libpq does: postgres://role@host/database. The schema is its search_path, "toold" when it
	// has none. It holds no password: that comes from PGPASSWORD, PGPASSFILE or passfile=.
	URL string
	Dir string // of the daemon, for output; required, made when it is not there
	// Now is a clock in the place of the database's, for tests.
	Now func() time.Time
	// Moved acknowledges that the journal was copied or restored, and that no other daemon acts for it: its calls are its own
	// again, and nothing has to be left alone.
	Moved   bool
	MaxOpen int // descriptors of the spool; 0 means 256
	Output  store.OutputLimits
	Readers int // connections that read; 0 means 8
	// Patience is for how long the server may be away before the store gives up, counted from the last proof that this daemon
	// is the owner; 0 means 30 s.
	Patience time.Duration
	// Lease is for how long the owner may be silent before the server takes the journal from it; 0 means a third of Patience.
	Lease time.Duration
	// Start is how old a proof may be when an effect starts ([Store.Own]); 0 means 2 s.
	Start time.Duration
	// Kill is how long the daemon needs to end what runs once the store has given up; 0 means 5 s.
	Kill time.Duration
	// Hold is for how long a daemon that took the journal from another one leaves that one's attempts alone ([Store.Hold]). At
	// least 1.1 (Patience + Kill); 0 means 40 s, or that when it is more.
	Hold time.Duration
	// Waiting is called once, when another daemon has the journal, with its name. Open continues to wait.
	Waiting func(holder string)
	// Lost is called once, when the journal is not this daemon's any more.
	Lost func(error)
	// FailPoint, for tests, is called at the named points of a write: begin, write, commit (it was sent), committed, and
	// close. Its error is taken for the database's. Some tests kill the process in it.
	FailPoint func(point string) error
}

// ErrHold means that a successor would not wait until the owner before it has ended.
var ErrHold = errors.New("hold must be at least 1.1 times lease and kill together")

// HoldFor is how long an owner takes to end that may act so long without the server, with a tenth for clocks that differ.
func HoldFor(patience, kill time.Duration) time.Duration { return (patience + kill) * 11 / 10 }

func (cfg *Config) defaults() error {
	cfg.Readers = max(cfg.Readers, 0)
	if cfg.Readers == 0 {
		cfg.Readers = 8
	}
	if cfg.Patience == 0 {
		cfg.Patience = 30 * time.Second
	}
	cfg.Lease, cfg.Start, cfg.Kill = cmp.Or(cfg.Lease, cfg.Patience/3), cmp.Or(cfg.Start, 2*time.Second), cmp.Or(cfg.Kill, 5*time.Second)
	least := HoldFor(cfg.Patience, cfg.Kill)
	if cfg.Hold = cmp.Or(cfg.Hold, max(40*time.Second, least)); cfg.Hold < least {
		return fmt.Errorf("%w: %v is less than %v", ErrHold, cfg.Hold, least)
	}
	if cfg.Waiting == nil {
		cfg.Waiting = func(string) {}
	}
	if cfg.FailPoint == nil {
		cfg.FailPoint = func(string) error { return nil }
	}
	return nil
}

// A Store is a journal on a server.
type Store struct {
	*group.Writer
	rows.Reader

	cfg    Config
	target *target
	dir    *os.File // the lock of the directory
	clock  *clock
	id     atomic.Pointer[store.Identity]
	spool  *spool.Spool
	writer *writer
	owner  *owner
	pool   *pgxpool.Pool

	fullUntil atomic.Int64 // nanoseconds by boot; 0: not full

	trimming sync.Mutex
	shutdown func() error
}

var _ interface {
	store.Store
	store.RecordReader
	store.Owned
} = (*Store)(nil)

// Open takes the journal that cfg names, or makes it, and begins an epoch. While another daemon has it Open waits. The
// caller closes it.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	target, err := parse(cfg.URL, cfg.Lease)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, target: target, clock: &clock{machine: cfg.Now}}
	s.Reader = rows.NewReader(s, &queries)
	s.writer = &writer{s: s}
	s.Writer = group.New(group.Config{Database: s.writer, Patience: cfg.Patience, Lost: cfg.Lost})
	s.shutdown = sync.OnceValue(s.close)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("journal in %s: %w", target, err), s.release())
		}
	}()
	if s.dir, err = lockDir(cfg.Dir); err != nil {
		return nil, err
	}
	if err := s.take(ctx); err != nil {
		return nil, err
	}
	if s.spool, err = spool.New(spool.Config{Dir: filepath.Join(cfg.Dir, "spool"), MaxOpen: cfg.MaxOpen, Limits: cfg.Output}); err != nil {
		return nil, err
	}
	go s.Write()
	go s.owner.keep()
	return s, nil
}

// take waits for the journal and begins an epoch, again when the server is lost on the way.
func (s *Store) take(ctx context.Context) (err error) {
	for until := time.Now().Add(s.cfg.Patience); ; {
		if s.owner, err = acquire(ctx, s); err != nil {
			return err
		}
		if err = s.begin(ctx); err == nil || !lost(err) || time.Now().After(until) || ctx.Err() != nil {
			return err
		}
		s.owner.giveUp(false)
		s.writer.disconnect()
	}
}

// begin brings the schema up to date, begins the epoch and opens the connections.
func (s *Store) begin(ctx context.Context) error {
	conn := s.owner.conn
	if err := migrate(ctx, conn, s.target.schema, schema, s.cfg.FailPoint); err != nil {
		return err
	}
	var err error
	if s.writer.groups, s.writer.position, err = s.beginEpoch(ctx, conn); err != nil {
		return err
	}
	if err := s.writer.connect(ctx); err != nil {
		return err
	}
	s.pool, err = s.target.readers(ctx, s.cfg.Readers)
	return err
}

// Now is the store's clock: the database's, except that it never runs back.
func (s *Store) Now() time.Time { return s.clock.now() }

// Identity returns what makes this store this one.
func (s *Store) Identity() store.Identity { return *s.id.Load() }

// Spool returns the output of the calls of this store, as far as this daemon has it.
func (s *Store) Spool() store.Spool { return s.spool }

// SweepSpool removes the output of calls that the journal does not know. It is for the start, before calls run.
func (s *Store) SweepSpool(ctx context.Context) (removed int, err error) {
	return s.spool.Sweep(func(key call.Key) (found bool, err error) {
		err = s.row(ctx, "SELECT EXISTS (SELECT 1 FROM calls WHERE namespace = $1 AND call_id = $2)", []any{&found}, key.Namespace, key.ID)
		return found, err
	})
}

// SpoolCounted reports whether it is known what threads and namespaces have in the spool; SweepSpool finds out.
func (s *Store) SpoolCounted() bool { return s.spool.Counted() }

// Close waits for what was submitted, writes the mark of a clean end and closes. After a failure it only closes.
func (s *Store) Close() error { return s.shutdown() }

func (s *Store) close() error {
	s.Stop()
	err := s.cfg.FailPoint("close")
	if err == nil && s.Refusal() == nil {
		err = s.writer.endEpoch()
	}
	return errors.Join(err, s.release())
}

// release closes all that is open. The journal is given up last.
func (s *Store) release() (err error) {
	s.Refuse(store.ErrClosed)
	if s.spool != nil {
		err = s.spool.Close()
	}
	if s.pool != nil {
		s.pool.Close()
	}
	s.writer.disconnect()
	if s.owner != nil {
		s.owner.giveUp(s.spool != nil)
	}
	if s.dir != nil {
		err = errors.Join(err, s.dir.Close())
	}
	return err
}
