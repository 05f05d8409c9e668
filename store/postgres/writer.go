package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

// A writer owns the writing connection. The goroutine of the [group.Writer] calls its methods.
type writer struct {
	s *Store

	conn     *pgx.Conn // nil while the connection is lost
	pid      uint32    // backend pid of the lost database session, or 0
	groups   int64     // number of committed groups
	position int64     // the newest assigned position
	states   stateCache

	// These fields describe the current transaction.
	began     time.Time
	asked     time.Duration // start, measured with CLOCK_BOOTTIME
	covered   bool          // the group is written without reading first
	mustRead  bool          // The next transaction must read first.
	batch     *pgx.Batch    // the statements that write and commit
	failing   time.Time     // time at which the first try failed; zero during the first try
	nextPause time.Duration

	created, changed, touched callColumns
}

const (
	firstPause = 5 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// write runs f in its own transaction.
func (s *Store) write(f func(context.Context, *writer) error) error { return s.admin(group.Op{}, f) }

// admin runs f on the writer's goroutine, for work that is not a change.
func (s *Store) admin(o group.Op, f func(context.Context, *writer) error) error {
	o.Run = func(ctx context.Context, _ *group.Plan) error {
		if o.Bare && s.writer.conn == nil {
			if err := s.writer.reconnect(ctx); err != nil {
				return err
			}
		}
		return f(ctx, s.writer)
	}
	return s.Do(o)
}

// Begin begins a transaction and reads the state that the plan needs. It reads nothing when the owner knows all calls that the group
// depends on.
func (w *writer) Begin(ctx context.Context, p *group.Plan) error {
	w.began, w.asked = time.Now(), boot()
	if w.conn == nil {
		if err := w.reconnect(ctx); err != nil {
			return err
		}
	}
	if err := w.point("begin"); err != nil {
		return wrapError(err)
	}
	p.Position = w.position
	w.covered = !w.mustRead && w.states.covers(p)
	w.mustRead = false
	if w.covered {
		p.Now = w.s.Now()
		return nil
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	b.Queue(selectMeta)
	if p.Ops[0].Run != nil {
		b.Queue("SET LOCAL plan_cache_mode = force_custom_plan") // Plan each time: these operations are rare and read many rows.
		w.states = nil
	}
	queueReads(b, p)
	results := w.conn.SendBatch(ctx, b)
	err := w.checkBegun(results)
	if closed := results.Close(); err == nil { // Close calls the functions that were passed to Query with the rows.
		err = wrapError(closed)
	}
	p.Now = w.s.Now()
	return err
}

func (w *writer) Read(ctx context.Context, p *group.Plan) error {
	b := &pgx.Batch{}
	if queueReads(b, p); b.Len() == 0 {
		return nil
	}
	return wrapError(w.conn.SendBatch(ctx, b).Close())
}

// selectMeta locks the journal for the transaction, and reads the values that checkBegun checks.
const selectMeta = `SELECT epoch, groups, current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM meta FOR UPDATE`

// checkBegun reads the answers to BEGIN and selectMeta, and checks that this daemon may write.
func (w *writer) checkBegun(results pgx.BatchResults) error {
	if _, err := results.Exec(); err != nil {
		return wrapError(err)
	}
	var epoch, groups, micros int64
	var fsync, pages, commit string
	if err := results.QueryRow().Scan(&epoch, &groups, &fsync, &pages, &commit, &micros); err != nil {
		return wrapError(err)
	}
	w.s.clock.set(time.UnixMicro(micros))
	if epoch != w.s.Identity().Epoch {
		return fmt.Errorf("%w: %w", store.ErrFatal, errTaken)
	}
	if groups != w.groups {
		return fmt.Errorf("%w: the journal is at group %d; this daemon expected %d", store.ErrFatal, groups, w.groups)
	}
	return safe(fsync, pages, commit)
}

// errMustRead means that a group must be read before it can be written. Nothing of the group was stored.
var errMustRead = errors.New("the group must be read first")

const (
	advance = "UPDATE meta SET clock = $1, position = $2, groups = $3"
	// advanceFenced updates meta. If this daemon has lost the journal or the server is not safe, it sets epoch to NULL, which the table
	// refuses, so that the transaction fails.
	advanceFenced = `UPDATE meta SET clock = $1, position = $2, groups = $3::bigint, epoch = CASE WHEN epoch = $4 AND groups = $3::bigint - 1
		AND current_setting('fsync') <> 'off' AND current_setting('full_page_writes') <> 'off' AND current_setting('synchronous_commit') <> 'off' THEN epoch END
		RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
)

// Apply makes the batch of statements that writes and commits the group. A group without reads needs no BEGIN and COMMIT, because the
// server runs a batch as one transaction.
func (w *writer) Apply(ctx context.Context, p *group.Plan) error {
	if w.covered && slices.ContainsFunc(p.Ops, func(o *group.Op) bool { return o.Err != nil }) {
		return errMustRead // A change was refused before the group was read. A refusal must be based on data that was read, so the group must be read first.
	}
	if err := w.point("write"); err != nil {
		return wrapError(err)
	}
	if err := w.link(ctx, p); err != nil {
		return err
	}
	w.batch = &pgx.Batch{}
	// Store the clock even when all changes were refused. A refusal may depend on the time, and after a restart the clock must not be
	// earlier than at that refusal.
	now, next := int64(p.Now), w.groups+1
	if !w.covered {
		w.batch.Queue(advance, now, p.Position, next)
		w.queue(w.batch, p)
		w.batch.Queue("COMMIT")
		return nil
	}
	w.batch.Queue(advanceFenced, now, p.Position, next, w.s.Identity().Epoch).QueryRow(func(row pgx.Row) error {
		var micros int64
		err := row.Scan(&micros)
		if err == nil {
			w.s.clock.set(time.UnixMicro(micros))
		}
		return err
	})
	queueNew(w.batch, p)
	w.queue(w.batch, p)
	return nil
}

// Commit sends the batch. When the answer is lost, it finds out on a new connection whether the transaction is stored. Until then, nothing
// else is written.
func (w *writer) Commit(ctx context.Context, p *group.Plan) error {
	results := w.conn.SendBatch(ctx, w.batch)
	err := w.point("commit")
	if closed := results.Close(); err == nil {
		err = closed
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" { // The server reports that it did not commit.
		if w.covered && slices.Contains([]string{"23505", "22012", "23502"}, pg.Code) { // These codes mean: an id that was assumed to be new exists or was trimmed, or the epoch or a setting of the server has changed.
			return errMustRead
		}
		return wrapError(err)
	}
	if err != nil {
		there, asked := w.outcome(ctx)
		if asked != nil {
			return fmt.Errorf("%w: the outcome of a COMMIT is unknown: %w: %w", store.ErrFatal, asked, wrapError(err))
		}
		if !there {
			return wrapError(err)
		}
	}
	w.groups, w.position = w.groups+1, p.Position
	w.states.update(p)
	w.s.Syncs.Observe(int64(time.Since(w.began)))
	w.s.owner.prove(w.asked)
	w.s.fullUntil.Store(0)
	w.failing = time.Time{}
	_ = w.point("committed") // Ignore the error: the transaction is committed.
	return nil
}

// outcome finds out whether the transaction with the lost answer is stored.
func (w *writer) outcome(ctx context.Context) (there bool, err error) {
	w.loseConn()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.s.cfg.Lease)
	defer cancel()
	for until := time.Now().Add(w.s.cfg.Lease); ; {
		if there, err = w.look(ctx, w.groups+1); err == nil || errors.Is(err, store.ErrFatal) || !w.pause(ctx, until) {
			return there, err
		}
	}
}

// pause waits before the next try, longer each time. It reports whether there is time for another try.
func (w *writer) pause(ctx context.Context, until time.Time) bool {
	if w.nextPause == 0 {
		w.nextPause = firstPause
	}
	select {
	case <-w.s.Done():
	case <-ctx.Done():
	case <-time.After(w.nextPause):
	}
	w.nextPause = min(2*w.nextPause, lastPause)
	return time.Now().Before(until) && w.s.Refusal() == nil && ctx.Err() == nil
}

// Failed rolls back. While the server is away, it reports that the group must be tried again.
func (w *writer) Failed(ctx context.Context, p *group.Plan, err error) (again bool, _ error) {
	w.states = nil
	if errors.Is(err, errMustRead) {
		w.mustRead = true
		return true, err
	}
	if errors.Is(err, ErrUnsafe) {
		err = fmt.Errorf("%w: %w", store.ErrFatal, err)
	}
	if errors.Is(err, store.ErrFatal) {
		return false, err
	}
	w.rollback(ctx)
	if w.conn != nil && (w.conn.IsClosed() || lost(err)) {
		w.loseConn()
	}
	if errors.Is(err, store.ErrFull) {
		w.s.fullUntil.Store(int64(boot() + fullFor))
	}
	if !lost(err) || p.Ops[0].Bare { // The writer does not try a bare op again.
		w.failing = time.Time{}
		return false, err
	}
	if w.failing.IsZero() {
		w.failing, w.nextPause = time.Now(), 0
	}
	if !w.pause(context.WithoutCancel(ctx), w.failing.Add(w.s.cfg.Lease)) {
		return false, fmt.Errorf("%w: the server did not answer for %v: %w", store.ErrFatal, w.s.cfg.Lease, err)
	}
	return true, err
}

// rollback ends an open transaction.
func (w *writer) rollback(ctx context.Context) {
	if w.conn == nil || w.conn.IsClosed() || w.conn.PgConn().TxStatus() == 'I' {
		return
	}
	if _, err := w.conn.Exec(ctx, "ROLLBACK"); err != nil {
		w.loseConn()
	}
}

func (w *writer) loseConn() {
	if w.conn != nil {
		w.pid = w.conn.PgConn().PID()
		w.disconnect()
	}
}

func (w *writer) disconnect() {
	if w.conn != nil {
		closeConn(w.conn)
		w.conn = nil
	}
}

// connect opens the writing connection. The statements of a group use one generic plan, because planning them each time would take a
// quarter of a group's time. This is safe: there is only one good plan for each of them.
func (w *writer) connect(ctx context.Context) (err error) {
	w.conn, err = w.s.target.connect(ctx, func(p map[string]string) { p["plan_cache_mode"] = "force_generic_plan" })
	if err != nil {
		w.conn = nil
	}
	return err
}

func (w *writer) reconnect(ctx context.Context) error {
	_, err := w.look(ctx, w.groups)
	return err
}

const selectOutcome = "SELECT epoch, groups, position FROM meta FOR UPDATE"

// look finds out on a new connection whether a group is stored. It terminates the lost database session and waits for the lock of that
// session on meta, which each transaction holds. The parameter to is the number of the group. look reports whether the journal contains
// this group. If not, the last group in the journal is the previous one.
func (w *writer) look(ctx context.Context, to int64) (there bool, err error) {
	if err := w.connect(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if w.pid != 0 { // The backend may have ended, and its pid may belong to another database session. The WHERE clause makes sure that only a session of this daemon is terminated.
		const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = current_setting('application_name')"
		if _, err := w.conn.Exec(ctx, end, int32(w.pid)); err != nil {
			w.disconnect() // Close only this connection and leave pid unchanged: it must stay the pid of the lost session.
			return false, wrapError(err)
		}
	}
	var epoch, groups, position int64
	if err := w.conn.QueryRow(ctx, selectOutcome).Scan(&epoch, &groups, &position); err != nil {
		w.disconnect()
		return false, wrapError(err)
	}
	switch {
	case epoch != w.s.Identity().Epoch:
		return false, fmt.Errorf("%w: %w", store.ErrFatal, errTaken)
	case groups == w.groups && position == w.position:
		there = groups == to
	case groups == to && to == w.groups+1:
		there = true
	default:
		return false, fmt.Errorf("%w: the journal is at group %d, position %d; this daemon expected group %d, position %d", store.ErrFatal, groups, position, w.groups, w.position)
	}
	w.pid = 0
	return there, nil
}

// endEpoch writes the mark of a clean end, after the writer has stopped.
func (w *writer) endEpoch() error {
	return w.s.Last(group.Op{Run: func(ctx context.Context, _ *group.Plan) error { return w.exec(ctx, "UPDATE meta SET clean = true") }})
}

// Query implements [group.Database].
func (w *writer) Query(ctx context.Context, text string, row func(rows.Row) error, args ...any) error {
	return query(ctx, w.conn, text, row, bind(args)...)
}

// Row implements [group.Database].
func (w *writer) Row(ctx context.Context, key call.Key) (found rows.Call, err error) {
	err = w.Query(ctx, selectCall, func(r rows.Row) error { found = rows.ReadCall(r); return nil }, key.Namespace, key.ID)
	if err == nil && found.Position == 0 {
		err = w.s.absent(ctx, key)
	}
	return found, err
}

func (w *writer) exec(ctx context.Context, text string, args ...any) error {
	_, err := w.conn.Exec(ctx, text, bind(args)...)
	return wrapError(err)
}

func (w *writer) point(name string) error { return w.s.cfg.FailPoint(name) }

// fullFor is how long new calls are refused after the server reported a full disk. After that, the next call may try again.
const fullFor = time.Second

// Full reports whether the server's disk was full within the last second, so that new calls must be refused.
func (s *Store) Full() bool {
	until := time.Duration(s.fullUntil.Load())
	return until != 0 && boot() < until
}
