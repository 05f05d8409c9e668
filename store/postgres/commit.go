package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toold-dev/toold/store"
)

// writeGroup commits a group. While the server is away it is tried again; what fails as a whole for the sake of one is
// tried one by one.
func (w *writer) writeGroup(group []*op) {
	var err error
	pause := 5 * time.Millisecond
	for until := time.Now().Add(w.s.cfg.Patience); ; pause = min(2*pause, 500*time.Millisecond) {
		err = w.transaction(group)
		if err == nil || !lost(err) || group[0].bare { // who asked for what is bare asks again
			break
		}
		if time.Now().After(until) || w.s.refusal() != nil {
			err = fmt.Errorf("%w: the server was away for %v: %w", store.ErrFatal, w.s.cfg.Patience, err)
			break
		}
		select {
		case <-w.s.done:
		case <-time.After(pause):
		}
	}
	switch {
	case err == nil:
		w.s.fullUntil.Store(0)
	case errors.Is(err, store.ErrFatal), errors.Is(err, ErrUnsafe):
		w.s.lose(err)
		refuse(group, w.s.refusal())
	case errors.Is(err, store.ErrFull):
		w.s.fullUntil.Store(int64(boot() + fullFor))
		refuse(group, err)
	case len(group) == 1:
		refuse(group, err)
	default:
		for i := range group {
			w.writeGroup(group[i : i+1])
		}
	}
}

// transaction writes a group. A nil error means that each op's err says what became of it; any other that nothing of the
// group is there, or with ErrFatal that nobody knows.
func (w *writer) transaction(group []*op) error {
	ctx, cancel := context.WithTimeout(context.Background(), w.s.cfg.Patience)
	defer cancel()
	if group[0].bare || group[0].slow {
		ctx, cancel = w.s.owned()
		defer cancel()
	}
	if w.conn == nil {
		there, err := w.reconnect(ctx)
		if err != nil || there {
			return err
		}
	}
	began, asked := time.Now(), boot()
	var err error
	if group[0].admin != nil {
		w.known = nil
	}
	if o := group[0]; o.bare {
		err = o.admin(ctx, w)
	} else if o.admin != nil {
		err = w.administer(ctx, o)
	} else {
		err = w.applyGroup(ctx, group)
	}
	if err == nil {
		w.sizes.Observe(int64(len(group)))
		w.syncs.Observe(int64(time.Since(began)))
		if !group[0].bare {
			w.s.owner.prove(asked)
		}
		_ = w.point("committed") // there is nothing left to fail
		return nil
	}
	return w.settle(ctx, err)
}

// settle brings the connection into order after an error. When it is lost, and the COMMIT was on its way, the next
// connection finds out what became of it.
func (w *writer) settle(ctx context.Context, err error) error {
	w.known = nil
	if errors.Is(err, store.ErrFatal) {
		return err
	}
	w.rollback(ctx)
	if w.conn != nil && (w.conn.IsClosed() || lost(err)) {
		w.lostConn()
	}
	if !w.unknown {
		return err
	}
	there, again := w.reconnect(ctx)
	if again != nil || there {
		return again
	}
	return err
}

// rollback ends a transaction that is open.
func (w *writer) rollback(ctx context.Context) {
	if w.conn == nil || w.conn.IsClosed() || w.conn.PgConn().TxStatus() == 'I' {
		return
	}
	if _, err := w.conn.Exec(ctx, "ROLLBACK"); err != nil {
		w.lostConn()
	}
}

func (w *writer) lostConn() {
	w.pid = w.conn.PgConn().PID()
	closeConn(w.conn)
	w.conn = nil
}

// disconnect ends the connection for good.
func (w *writer) disconnect() {
	if w.conn != nil {
		closeConn(w.conn)
		w.conn = nil
	}
}

// connect opens the connection that writes. The statements of a group have one plan for ever: each can be carried out well
// in one way only, and to plan them takes as long as a quarter of the group.
func (w *writer) connect(ctx context.Context) (err error) {
	w.conn, err = w.s.target.connect(ctx, func(p map[string]string) { p["plan_cache_mode"] = "force_generic_plan" })
	if err != nil {
		w.conn = nil
	}
	return err
}

const selectOutcome = "SELECT epoch, groups, position FROM meta FOR UPDATE"

// reconnect opens the connection anew. It ends the session that was lost, waits for it by the lock that each transaction
// holds on meta, and reads whether the group whose answer is missing is there.
func (w *writer) reconnect(ctx context.Context) (there bool, err error) {
	if err := w.connect(ctx); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if w.pid != 0 { // one of the same role, or the server refuses; there may be none
		const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = current_setting('application_name')"
		if _, err := w.conn.Exec(ctx, end, int32(w.pid)); err != nil {
			w.disconnect() // the session that was lost is still the other one
			return false, said(err)
		}
	}
	var epoch, groups, position int64
	if err := w.conn.QueryRow(ctx, selectOutcome).Scan(&epoch, &groups, &position); err != nil {
		w.disconnect()
		return false, said(err)
	}
	switch {
	case epoch != w.s.Identity().Epoch:
		return false, fmt.Errorf("%w: %w", store.ErrFatal, errTaken)
	case groups == w.groups && position == w.position:
	case w.unknown && groups == w.groups+1:
		w.groups, w.position, there = groups, position, true
	default:
		return false, fmt.Errorf("%w: the journal is at group %d, position %d; this daemon was at %d, %d", store.ErrFatal, groups, position, w.groups, w.position)
	}
	w.pid, w.unknown = 0, false
	return there, nil
}

// selectMeta locks the journal for the transaction and shows what must hold for it.
const selectMeta = `SELECT epoch, groups, current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'),
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM meta FOR UPDATE`

// enter queues what each transaction begins with.
func (w *writer) enter(b *pgx.Batch) {
	b.Queue("BEGIN")
	b.Queue(selectMeta)
}

// entered reads what enter asked.
func (w *writer) entered(results pgx.BatchResults) error {
	if _, err := results.Exec(); err != nil {
		return said(err)
	}
	var epoch, groups, micros int64
	var fsync, pages, commit string
	if err := results.QueryRow().Scan(&epoch, &groups, &fsync, &pages, &commit, &micros); err != nil {
		return said(err)
	}
	w.s.clock.set(time.UnixMicro(micros))
	if epoch != w.s.Identity().Epoch {
		return fmt.Errorf("%w: %w", store.ErrFatal, errTaken)
	}
	if groups != w.groups {
		return fmt.Errorf("%w: the journal is at group %d; this daemon was at %d", store.ErrFatal, groups, w.groups)
	}
	return safe(fsync, pages, commit)
}

const advance = "UPDATE meta SET clock = $1, position = $2, groups = $3"

// advance queues what each transaction leaves in meta, and there takes the time of the database. The clock is written even
// when all changes were refused: who was told that it came too late must stay so.
func (w *writer) advance(b *pgx.Batch, text string, now time.Time, more ...any) {
	q := b.Queue(text, append([]any{now.UnixNano(), w.pending, w.groups + 1}, more...)...)
	if len(more) > 0 {
		q.QueryRow(func(row pgx.Row) error {
			var micros int64
			err := row.Scan(&micros)
			if err == nil {
				w.s.clock.set(time.UnixMicro(micros))
			}
			return err
		})
	}
}

// leave sends what is queued, which ends the transaction, and reads what became of it.
func (w *writer) leave(ctx context.Context, b *pgx.Batch) error {
	w.unknown = true
	results := w.conn.SendBatch(ctx, b)
	err := w.point("commit")
	if closed := results.Close(); err == nil {
		err = closed
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.SeverityUnlocalized == "ERROR" {
		w.unknown = false // the server says that it did not
	}
	if err != nil {
		return said(err)
	}
	w.groups, w.position, w.unknown = w.groups+1, w.pending, false
	return nil
}

// administer runs an op that is no change in a transaction.
func (w *writer) administer(ctx context.Context, o *op) error {
	w.pending = w.position
	if err := w.point("begin"); err != nil {
		return said(err)
	}
	b := &pgx.Batch{}
	w.enter(b)
	b.Queue("SET LOCAL plan_cache_mode = force_custom_plan") // what an admin does is rare, and looks at much
	results := w.conn.SendBatch(ctx, b)
	err := w.entered(results)
	if closed := results.Close(); err == nil {
		err = said(closed)
	}
	if err != nil {
		return err
	}
	if o.err = o.admin(ctx, w); errors.As(o.err, new(*failure)) {
		return o.err
	} else if o.err != nil {
		w.rollback(ctx)
		return nil //nolint:nilerr // it is told as the op's own
	}
	if err := w.point("write"); err != nil {
		return said(err)
	}
	b = &pgx.Batch{}
	w.advance(b, advance, w.s.clock.now())
	b.Queue("COMMIT")
	return w.leave(ctx, b)
}

// endEpoch writes the mark of a clean end.
func (w *writer) endEpoch() error {
	o := &op{admin: func(ctx context.Context, w *writer) error { return w.exec(ctx, "UPDATE meta SET clean = true") }}
	w.writeGroup([]*op{o})
	return o.err
}

func (w *writer) exec(ctx context.Context, text string, args ...any) error {
	_, err := w.conn.Exec(ctx, text, bind(args)...)
	return said(err)
}

func (w *writer) point(name string) error { return w.s.cfg.FailPoint(name) }

// next gives a position of the feed. Who reads beyond one has seen all that comes before it, because one transaction
// ends after the other.
func (w *writer) next() int64 {
	w.pending++
	return w.pending
}

// fullFor is for how long new calls are refused after the server said that its disk is full: then the next one tries.
const fullFor = time.Second

// Full reports that the server's disk was full a moment ago and that new calls should be refused.
func (s *Store) Full() bool {
	until := time.Duration(s.fullUntil.Load())
	return until != 0 && boot() < until
}
