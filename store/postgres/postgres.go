// Package postgres stores the journal in one schema of a PostgreSQL database. It suits installations that already have a server, or that
// need a second daemon as a standby.
//
// One goroutine writes. It takes the waiting changes, Full ones first, and commits them as one transaction with an array for each column. A
// group needs one round trip when the owner already knows the calls that the group changes. Otherwise it needs two round trips: the first
// reads the data that the changes depend on. When the answer to a COMMIT is lost, the writer first finds out whether the transaction is
// stored. If it cannot find out, the store stops. Readers have their own connections.
//
// One daemon owns a journal. It holds an advisory lock on its own connection. Each of its transactions locks the only row of meta and
// compares the epoch there with its own. So a daemon that lost the lock without noticing can change nothing in the journal once another
// daemon has begun an epoch. Three rules bound the effects of such a daemon outside the journal:
//
//   - Each effect calls [Store.Own] right before it starts.
//   - An owner stops when it has had no proof of ownership for Config.Lease.
//   - Its successor leaves the attempts of that owner alone for [Store.Hold].
//
// The output of calls stays in files, in the directory of the daemon.
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

// Config configures a Store.
type Config struct {
	// URL names the database as in libpq: postgres://role@host/database. Its search_path names the schema; the default is "toold". It must
	// not contain a password. Set the password with PGPASSWORD, PGPASSFILE or passfile=.
	URL string
	Dir string // Required: the daemon's directory for output. Open creates it.
	// Now replaces the database's clock in tests.
	Now func() time.Time
	// Moved confirms that the journal was copied or restored, and that no other daemon acts for it. Unfinished calls are then not held, and
	// no attempts are ignored.
	Moved   bool
	MaxOpen int // maximum open files of the spool; 0 means 256
	Output  store.OutputLimits
	Readers int // reading connections; 0 means 8
	// Lease is how long the server may be away before the store stops, counted from the last proof that this daemon is the owner. Zero
	// means 30 s.
	Lease time.Duration
	// SessionTimeout is how long the owner may be silent before the server frees the journal. Zero means a third of Lease.
	SessionTimeout time.Duration
	// Start is the maximum age of the proof of ownership when an effect starts; see [Store.Own]. Zero means 2 s.
	Start time.Duration
	// Kill is how long the daemon needs to end all attempts after the store has stopped. Zero means 5 s.
	Kill time.Duration
	// Hold is how long a daemon ignores the attempts of its predecessor ([Store.Hold]). It must be at least 1.1 × (Lease + Kill). Zero
	// means 40 s, or that minimum when it is longer.
	Hold time.Duration
	// Waiting is called once with the name of the owner when another daemon owns the journal. Open continues to wait.
	Waiting func(holder string)
	// Lost is called once when the store stops, because this daemon no longer owns the journal or does not know the journal's state.
	Lost func(error)
	// FailPoint is for tests. It is called at named points: migrate, begin, write, commit (after COMMIT was sent), committed, and close.
	// The store treats the error that it returns as an error of the database. Some tests kill the process in it.
	FailPoint func(point string) error
}

// ErrHold means that Config.Hold is too short: a new owner could act before the previous owner has ended.
var ErrHold = errors.New("hold must be at least 1.1 times the sum of lease and kill")

// HoldFor returns how long an owner with this lease and kill time may still act without the server. It adds a tenth for clocks that run
// at different speeds.
func HoldFor(lease, kill time.Duration) time.Duration { return (lease + kill) * 11 / 10 }

func (cfg *Config) defaults() error {
	cfg.Readers = max(cfg.Readers, 0)
	if cfg.Readers == 0 {
		cfg.Readers = 8
	}
	if cfg.Lease == 0 {
		cfg.Lease = 30 * time.Second
	}
	cfg.SessionTimeout, cfg.Start, cfg.Kill = cmp.Or(cfg.SessionTimeout, cfg.Lease/3), cmp.Or(cfg.Start, 2*time.Second), cmp.Or(cfg.Kill, 5*time.Second)
	least := HoldFor(cfg.Lease, cfg.Kill)
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

// A Store is a journal on a PostgreSQL server.
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

	fullUntil atomic.Int64 // end of the time in which the disk counts as full, as a reading of CLOCK_BOOTTIME in nanoseconds; zero means not full

	trimming sync.Mutex
	shutdown func() error
}

var _ interface {
	store.Store
	store.RecordReader
	store.Owned
} = (*Store)(nil)

// Open opens or creates the journal at cfg.URL and begins an epoch. It waits while another daemon owns the journal. The caller closes the
// Store.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	target, err := parse(cfg.URL, cfg.SessionTimeout)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, target: target, clock: &clock{machine: cfg.Now}}
	s.Reader = rows.NewReader(s, &queries)
	s.writer = &writer{s: s}
	s.Writer = group.New(group.Config{Database: s.writer, Timeout: cfg.Lease, Lost: cfg.Lost})
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

// take waits for the journal and begins an epoch. It starts over when it loses the server.
func (s *Store) take(ctx context.Context) (err error) {
	for until := time.Now().Add(s.cfg.Lease); ; {
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

// begin migrates the schema, begins the epoch and opens the connections.
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

// Now returns the time of the store's clock. It follows the database's clock but never runs backwards.
func (s *Store) Now() call.Stamp { return s.clock.now() }

// Identity returns the store's id and its current epoch.
func (s *Store) Identity() store.Identity { return *s.id.Load() }

// Spool returns the spool. It has only the output that this daemon wrote.
func (s *Store) Spool() store.Spool { return s.spool }

// SweepSpool removes the output of unknown calls. Call it at start, before calls run.
func (s *Store) SweepSpool(ctx context.Context) (removed int, err error) {
	return s.spool.Sweep(func(key call.Key) (found bool, err error) {
		err = s.row(ctx, "SELECT EXISTS (SELECT 1 FROM calls WHERE namespace = $1 AND call_id = $2)", []any{&found}, key.Namespace, key.ID)
		return found, err
	})
}

// SpoolCounted reports whether the spool usage of threads and namespaces is known, or not needed because there are no limits. If not,
// SweepSpool counts it.
func (s *Store) SpoolCounted() bool { return s.spool.Counted() }

// Close waits for submitted changes, writes the mark of a clean end and closes the store. After a failure it only closes.
func (s *Store) Close() error { return s.shutdown() }

func (s *Store) close() error {
	s.Stop()
	err := s.cfg.FailPoint("close")
	if err == nil && s.Refusal() == nil {
		err = s.writer.endEpoch()
	}
	return errors.Join(err, s.release())
}

// release closes everything that is open. It frees the lock of the journal last.
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
