package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// errTaken means that another daemon has begun an epoch.
var errTaken = errors.New("another daemon has taken over the journal")

// standbyEvery is how often a standby checks whether the journal is free.
const standbyEvery = 250 * time.Millisecond

// An owner holds the advisory lock of a journal on its own connection. When the connection is silent for Config.SessionTimeout, the server
// ends the database session and frees the lock.
type owner struct {
	s      *Store
	conn   *pgx.Conn // nil while the connection is lost
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // of the goroutine that keeps
	kept   chan struct{}   // closed when keep has returned
	asked  chan struct{}   // Capacity 1. It holds a value when a goroutine waits for a proof.

	holdUntil time.Duration // end of the hold, as a reading of CLOCK_BOOTTIME; zero means no hold; set before keep starts
	holding   bool          // meta says that the hold is not over; used only by keep

	mu     sync.Mutex
	proven time.Duration // time at which the newest proving statement was sent, as a reading of CLOCK_BOOTTIME
	proof  chan struct{} // closed at the next proof
}

// prove records a proof of ownership. The proving statement was sent at the time asked, so this daemon owned the journal at some moment
// after that.
func (o *owner) prove(asked time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if asked > o.proven {
		o.proven = asked
		close(o.proof)
		o.proof = make(chan struct{})
	}
}

// begin records the first proof, and for how long the attempts of earlier epochs must be ignored. The hold is counted from now, because the
// new epoch has just begun.
func (o *owner) begin(asked, hold time.Duration) {
	o.prove(asked)
	if hold > 0 {
		o.holdUntil, o.holding = boot()+hold, true
	}
}

// last returns the time of the newest proof, and a channel that is closed at the next proof.
func (o *owner) last() (proven time.Duration, next <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.proven, o.proof
}

// Own returns nil when the newest proof of ownership is not older than [Config.Start]. Otherwise it waits for a new proof. When an effect
// starts right after Own, no other daemon had begun an epoch at most Config.Start earlier.
func (s *Store) Own(ctx context.Context) error {
	_, err := s.StartBy(ctx)
	return err
}

// StartBy does what Own does, and returns the latest time at which the effect may start, as a reading of CLOCK_BOOTTIME.
func (s *Store) StartBy(ctx context.Context) (time.Duration, error) {
	for {
		if err := s.Refusal(); err != nil {
			return 0, err
		}
		proven, next := s.owner.last()
		if boot()-proven <= s.cfg.Start {
			return proven + s.cfg.Start, nil
		}
		select {
		case s.owner.asked <- struct{}{}:
		default:
		}
		select {
		case <-next:
		case <-s.Done():
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// Hold returns for how long the attempts of earlier epochs must still be ignored.
func (s *Store) Hold() time.Duration { return max(s.owner.holdUntil-boot(), 0) }

// acquire waits until the journal is free and takes it.
func acquire(ctx context.Context, s *Store) (*owner, error) {
	o := &owner{s: s, kept: make(chan struct{}), asked: make(chan struct{}, 1), proof: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	reported, waited := false, false
	for began := time.Now(); ; {
		holder, err := o.try(ctx)
		wait := standbyEvery
		switch {
		case err == nil && holder == "" && reported && !waited && !o.clean(ctx):
			// The owner may have lost only its connection. If it is alive, it must get the lock first: it tries to do so five times during
			// this pause.
			waited, wait = true, s.cfg.SessionTimeout/2
			o.drop()
		case err == nil && holder == "":
			return o, nil
		case err == nil:
			began, waited = time.Now(), false
			if !reported {
				reported = true
				s.cfg.Waiting(holder)
			}
		case !lost(err) || !reported && time.Since(began) > s.cfg.Lease:
			o.cancel()
			return nil, err
		default:
			waited = false // The server was lost, for the owner too. When the server is back, give the owner another pause in which to take the lock.
		}
		select {
		case <-ctx.Done():
			o.cancel()
			o.drop()
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// clean reports whether the previous owner closed the journal cleanly.
func (o *owner) clean(ctx context.Context) (clean bool) {
	ctx, cancel := context.WithTimeout(ctx, o.s.cfg.SessionTimeout)
	defer cancel()
	err := o.conn.QueryRow(ctx, "SELECT clean FROM meta").Scan(&clean)
	return err == nil && clean
}

const selectHolder = `SELECT coalesce(a.application_name, '') || ' at ' || coalesce(host(a.client_addr), 'this host')
	FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = $1 AND l.objid::bigint = $2 AND l.objsubid = 2
	AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// try takes the lock, or returns its holder.
func (o *owner) try(ctx context.Context) (holder string, err error) {
	if o.conn == nil {
		if o.conn, err = o.s.target.connect(ctx, func(p map[string]string) { p["idle_session_timeout"] = millis(o.s.cfg.SessionTimeout) }); err != nil {
			o.conn = nil
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.s.cfg.SessionTimeout)
	defer cancel()
	class, id := o.s.target.lockKey()
	var mine bool
	err = o.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1::int, $2::int)", class, id).Scan(&mine)
	if err == nil && !mine {
		holder = "somebody"
		if err = o.conn.QueryRow(ctx, selectHolder, int64(class), int64(uint32(id))).Scan(&holder); errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
	}
	if err != nil {
		o.drop()
	}
	return holder, wrapError(err)
}

// keep does three things until the store is done. It shows the server that the owner is alive. It takes the lock again after the connection
// was lost. It stops the store when another daemon has taken the journal, or when there was no proof for Config.Lease.
func (o *owner) keep() {
	defer close(o.kept)
	every := max(o.s.cfg.SessionTimeout/10, time.Millisecond)
	for {
		select {
		case <-o.s.Done():
			return
		case <-o.ctx.Done():
			return
		case <-o.asked:
		case <-time.After(every):
		}
		err := o.check()
		proven, _ := o.last()
		switch {
		case err == nil:
		case o.ctx.Err() != nil:
			return
		case !lost(err):
			o.s.Lose(err)
			return
		case boot()-proven > o.s.cfg.Lease:
			o.s.Lose(fmt.Errorf("the server did not answer for %v: %w", o.s.cfg.Lease, err))
			return
		case len(o.asked) > 0: // Drop the request, so that waiting goroutines cannot cause checks without a pause.
			<-o.asked
		}
	}
}

const (
	selectEpoch = "SELECT epoch, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM meta"
	// endHold skips the row when it is locked, because the writer often holds the lock.
	endHold = "UPDATE meta SET holding = false WHERE id IN (SELECT id FROM meta WHERE epoch = $1 FOR UPDATE SKIP LOCKED)"
)

// check proves that this daemon still owns the journal. It returns at the latest when Config.Lease has passed since the last proof.
func (o *owner) check() error {
	proven, _ := o.last()
	within, done := context.WithTimeout(o.ctx, max(proven+o.s.cfg.Lease-boot(), time.Millisecond))
	defer done()
	holder := ""
	if o.conn == nil {
		var err error
		if holder, err = o.try(within); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(within, o.s.cfg.SessionTimeout)
	defer cancel()
	asked := boot()
	var epoch, micros int64
	if err := o.conn.QueryRow(ctx, selectEpoch).Scan(&epoch, &micros); err != nil {
		o.drop()
		return wrapError(err)
	}
	o.s.clock.set(time.UnixMicro(micros))
	switch {
	case epoch != o.s.Identity().Epoch:
		return errTaken
	case holder != "":
		o.drop() // Drop the connection. The next check finds either the epoch of the new owner or a free lock.
		return wrapError(fmt.Errorf("%s holds the lock", holder))
	}
	o.prove(asked)
	return o.endHold(ctx)
}

// endHold clears holding in meta once the hold is over.
func (o *owner) endHold(ctx context.Context) error {
	if !o.holding || boot() < o.holdUntil {
		return nil
	}
	done, err := o.conn.Exec(ctx, endHold, o.s.Identity().Epoch)
	if err != nil {
		o.drop()
		return wrapError(err)
	}
	o.holding = done.RowsAffected() == 0
	return nil
}

// drop closes the connection, which frees the lock.
func (o *owner) drop() {
	if o.conn != nil {
		closeConn(o.conn)
		o.conn = nil
	}
}

// giveUp frees the lock. began reports whether keep was started.
func (o *owner) giveUp(began bool) {
	o.cancel()
	if began {
		<-o.kept
	}
	o.drop()
}

// closeConn closes a connection, and waits at most one second for it.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // Ignore the error: the server notices when the connection is closed.
}
