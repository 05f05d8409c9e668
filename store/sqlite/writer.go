package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

// checkpointBytes is about how much is written before the log is copied into the database: large enough that pages
// which change often are copied once, small enough that the pause stays short.
const checkpointBytes = 4 << 20

// A writer owns the connection that writes. Its methods are called on the goroutine of the [group.Writer].
type writer struct {
	s    *Store
	conn *sqlite.Conn

	begun     atomic.Bool // the journal has the epoch
	beginning atomic.Bool // a transaction that stores the epoch is queued

	first       meta  // what the epoch begins with
	position    int64 // the newest that was given
	synchronous store.Durability
	block       int64             // that members speaks of
	members     map[member]uint64 // bits of new calls that are not written yet
	gathered    gathering         // calls of a pack that is not written yet
	// insertPacked are the statements for packs of 1, 2, ... calls
	insertPacked [packCalls]string
	written      int // bytes since the last checkpoint
}

func newWriter(s *Store) *writer {
	return &writer{s: s, members: map[member]uint64{}, insertPacked: insertPacked()}
}

// recall reads what the writer keeps in memory.
func (w *writer) recall(m meta) error {
	w.position = m.position
	return known(query(w.conn, "SELECT 1 FROM tombstones LIMIT 1", func(*sqlite.Stmt) error {
		w.s.tombstones.Store(true)
		return nil
	}))
}

// write runs f as a transaction of its own.
func (s *Store) write(f func(*writer) error) error {
	return s.Do(group.Op{Run: func(context.Context, *group.Plan) error { return f(s.writer) }})
}

// mayPublish reports whether the journal has the epoch, and tries to store it otherwise. An event that is published before is
// lost with the epoch: the next start begins the same one, and would publish others under the same numbers.
func (w *writer) mayPublish() bool {
	if !w.begun.Load() && w.beginning.CompareAndSwap(false, true) {
		nothing := group.Op{Run: func(context.Context, *group.Plan) error { return nil }}
		if w.s.Queue(nothing, func(error) { w.beginning.Store(false) }) != nil {
			w.beginning.Store(false)
		}
	}
	return w.begun.Load()
}

// Begin implements [group.Database]. The transaction is as durable as the plan, and one that stores the epoch is always so.
func (w *writer) Begin(ctx context.Context, p *group.Plan) error {
	need := p.Durability
	if !w.begun.Load() {
		need = store.Full
	}
	if need != w.synchronous {
		mode := "synchronous = FULL"
		if need == store.Normal {
			mode = "synchronous = NORMAL"
		}
		if err := pragma(w.conn, mode, nil); err != nil {
			return err
		}
		w.synchronous = need
	}
	if err := w.point("begin"); err != nil {
		return err
	}
	if err := exec(w.conn, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if !w.begun.Load() {
		if err := w.s.storeEpoch(w.conn); err != nil {
			return err
		}
	}
	p.Position = w.position
	if err := w.Read(ctx, p); err != nil {
		return err
	}
	p.Now = w.s.clock.now()
	return nil
}

const (
	selectStanding = "SELECT position, '', '', status, revision, last_sequence, 0, NULL FROM calls WHERE namespace = ?1 AND call_id = ?2 UNION ALL " + selectPacked
	selectDecided  = "SELECT 1 FROM decisions WHERE namespace = ? AND id = ?"
)

// Read implements [group.Database].
func (w *writer) Read(_ context.Context, p *group.Plan) error {
	for _, key := range p.AskCalls {
		if w.s.ids.excludes(ofCall(key)) {
			continue
		}
		if err := w.readState(key, p.Calls[key]); err != nil {
			return err
		}
	}
	for _, d := range p.AskDecisions {
		err := query(w.conn, selectDecided, func(*sqlite.Stmt) error {
			p.Decisions[d] = true
			return nil
		}, d.Namespace, d.ID)
		if err != nil {
			return err
		}
	}
	return w.readDocuments(p)
}

func (w *writer) readState(key call.Key, s *group.State) error {
	err := query(w.conn, selectStanding, func(st *sqlite.Stmt) error {
		s.Position = st.ColumnInt64(0)
		if s.Standing = (store.Standing{Status: call.Status(st.ColumnText(3)), Revision: st.ColumnInt64(4), LastSequence: st.ColumnInt64(5)}); inPack(st) {
			m := new(pack).find(st)
			s.Standing = store.Standing{Status: call.Succeeded, Revision: 1, LastSequence: m.eventsLast}
		}
		return rows.ErrEnough
	}, key.Namespace, key.ID)
	if err == nil && s.Position == 0 {
		s.Trimmed, err = w.s.isTrimmed(w.conn, key)
	}
	return err
}

// Apply implements [group.Database].
func (w *writer) Apply(_ context.Context, p *group.Plan) error {
	w.written += pageSize // a commit costs a page at least
	for _, o := range p.Ops {
		w.written += o.Size()
	}
	err := w.writePlan(p)
	if err == nil {
		err = w.point("write")
	}
	if err != nil {
		return err
	}
	// Written even when all changes were refused: time that a refusal was based on must not come again.
	return exec(w.conn, "UPDATE meta SET clock = ?, position = ?", p.Now.UnixNano(), p.Position)
}

func (w *writer) writePlan(p *group.Plan) error {
	if err := w.writeCalls(p); err != nil {
		return err
	}
	for i := range p.Chunks {
		if err := w.insertEvents(&p.Chunks[i]); err != nil {
			return err
		}
	}
	for _, n := range p.Suspensions.Keys {
		if err := w.writeSuspension(n, p.Suspensions.Values[n]); err != nil {
			return err
		}
	}
	for _, a := range p.Answers {
		if err := exec(w.conn, insertDecision, a.Namespace, a.ID, rows.Sum(a.Bytes, a.Namespace, a.ID), a.Bytes); err != nil {
			return err
		}
	}
	for _, d := range p.Changed.Keys {
		if err := w.writeDocument(d, p.Changed.Values[d], p.Now); err != nil {
			return err
		}
	}
	for i := range p.Runs {
		if err := w.writeRun(&p.Runs[i]); err != nil {
			return err
		}
	}
	for i := range p.Policies {
		if err := w.writePolicy(&p.Policies[i], p.Now); err != nil {
			return err
		}
	}
	if err := w.writeActions(p); err != nil {
		return err
	}
	return w.writeRecords(p)
}

// Commit implements [group.Database]. When the disk fails here, nobody knows whether the transaction is there.
func (w *writer) Commit(_ context.Context, p *group.Plan) error {
	err := w.point("commit")
	if err == nil {
		began := time.Now()
		err = known(exec(w.conn, "COMMIT"))
		if w.synchronous == store.Full {
			w.s.Syncs.Observe(int64(time.Since(began)))
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrFatal), sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy:
		return err // nothing was written, or it is known to be fatal
	default:
		return fmt.Errorf("%w: commit: %w", store.ErrFatal, err)
	}
	w.begun.Store(true)
	w.position = p.Position
	if len(p.Changed.Keys) > 0 || p.Ops[0].Run != nil { // what is no change of a call may change every document
		w.s.documents.changed()
	}
	if err := w.point("committed"); err != nil {
		return fmt.Errorf("%w: %w", store.ErrFatal, err)
	}
	w.checkpoint()
	return nil
}

// Failed implements [group.Database]. A full disk gives up the reserve, once, for the calls that can still end.
func (w *writer) Failed(_ context.Context, p *group.Plan, err error) (again bool, _ error) {
	clear(w.members)
	w.gathered.clear()
	if err = known(err); errors.Is(err, store.ErrFatal) {
		return false, err
	}
	if !w.conn.AutocommitEnabled() {
		if err := exec(w.conn, "ROLLBACK"); err != nil {
			return false, fmt.Errorf("%w: rollback: %w", store.ErrFatal, err)
		}
	}
	return errors.Is(err, store.ErrFull) && !p.Ops[0].Bare && w.s.room.release(), err
}

// checkpoint copies the log into the database now and then. Were it left to SQLite, a failed fsync would go unheard.
func (w *writer) checkpoint() {
	if w.written < checkpointBytes {
		return
	}
	w.written = 0
	err := known(pragma(w.conn, "wal_checkpoint(PASSIVE)", nil))
	switch {
	case err == nil, errors.Is(err, store.ErrCorrupt):
	case errors.Is(err, store.ErrFull):
		w.s.room.release() // what was committed is safe in the log; the next checkpoint has more room
	default:
		w.s.Lose(err) // the group is committed and its log was synced; what comes later cannot be trusted
	}
}

// point calls the FailPoint, whose error is taken for the disk's.
func (w *writer) point(name string) error {
	if err := w.s.cfg.FailPoint(name); err != nil {
		return known(&failure{err})
	}
	return nil
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
