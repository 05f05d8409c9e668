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

// checkpointBytes is about how many bytes are written between two checkpoints. It is large enough that a page that changes often is copied
// only once. It is small enough that the pause for a checkpoint is short.
const checkpointBytes = 4 << 20

// A writer owns the writing connection. The goroutine of the [group.Writer] calls its methods.
type writer struct {
	s    *Store
	conn *sqlite.Conn

	begun     atomic.Bool // The epoch is stored.
	beginning atomic.Bool // A transaction that stores the epoch is queued.

	first       meta  // the meta row when the journal was opened
	position    int64 // the newest assigned position
	synchronous store.Durability
	block       int64             // the block of the bits in members
	members     map[member]uint64 // bits of new calls that are not written yet
	nextPack    packBuilder       // the next pack
	// insertPacked holds the statements that insert the ids of 1, 2, … calls of a pack.
	insertPacked [packCalls]string
	written      int // bytes since the last checkpoint
}

func newWriter(s *Store) *writer {
	return &writer{s: s, members: map[member]uint64{}, insertPacked: insertPacked()}
}

// recall initializes the state that the writer keeps in memory.
func (w *writer) recall(m meta) error {
	w.position = m.position
	return mapError(query(w.conn, "SELECT 1 FROM tombstones LIMIT 1", func(*sqlite.Stmt) error {
		w.s.tombstones.Store(true)
		return nil
	}))
}

// write runs f in its own transaction.
func (s *Store) write(f func(*writer) error) error {
	return s.Do(group.Op{Run: func(context.Context, *group.Plan) error { return f(s.writer) }})
}

// mayPublish reports whether the epoch is stored. If it is not, mayPublish tries to store it. Without a stored epoch, no event may be
// published: the next start would begin the same epoch and publish other events under the same numbers.
func (w *writer) mayPublish() bool {
	if !w.begun.Load() && w.beginning.CompareAndSwap(false, true) {
		nothing := group.Op{Run: func(context.Context, *group.Plan) error { return nil }}
		if w.s.Queue(nothing, func(error) { w.beginning.Store(false) }) != nil {
			w.beginning.Store(false)
		}
	}
	return w.begun.Load()
}

// Begin begins a transaction with the durability of the plan. A transaction that stores the epoch always has full durability.
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
	p.Now = w.s.Now()
	return nil
}

const (
	selectState   = "SELECT position, '', '', status, revision, last_sequence, 0, NULL FROM calls WHERE namespace = ?1 AND call_id = ?2 UNION ALL " + selectPacked
	selectDecided = "SELECT 1 FROM decisions WHERE namespace = ? AND id = ?"
)

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
	err := query(w.conn, selectState, func(st *sqlite.Stmt) error {
		s.Position = st.ColumnInt64(0)
		if s.CallState = (store.CallState{Status: call.Status(st.ColumnText(3)), Revision: st.ColumnInt64(4), LastSequence: st.ColumnInt64(5)}); inPack(st) {
			m := new(pack).find(st)
			s.CallState = store.CallState{Status: call.Succeeded, Revision: 1, LastSequence: m.eventsLast}
		}
		return rows.ErrEnough
	}, key.Namespace, key.ID)
	if err == nil && s.Position == 0 {
		s.Trimmed, err = w.s.isTrimmed(w.conn, key)
	}
	return err
}

// Query implements [group.Database].
func (w *writer) Query(_ context.Context, text string, row func(rows.Row) error, args ...any) error {
	return query(w.conn, text, func(st *sqlite.Stmt) error { return row(stmtRow{st}) }, args...)
}

// Row implements [group.Database]. It turns the pack of the call into rows.
func (w *writer) Row(_ context.Context, key call.Key) (found rows.Call, err error) {
	pack := int64(0)
	err = query(w.conn, selectPacked, func(st *sqlite.Stmt) error { pack = st.ColumnInt64(4); return nil }, key.Namespace, key.ID)
	if err == nil && pack != 0 {
		err = w.unpack(pack, nil)
	}
	if err == nil {
		found, err = w.s.find(w.conn, key)
	}
	if err == nil && found.Position == 0 {
		err = w.s.absent(w.conn, key)
	}
	return found, err
}

func (w *writer) Apply(_ context.Context, p *group.Plan) error {
	w.written += pageSize // A commit writes at least one page.
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
	// Store the clock even when all changes were refused. A refusal may depend on the time, and after a restart the clock must not be
	// earlier than at that refusal.
	return exec(w.conn, "UPDATE meta SET clock = ?, position = ?", int64(p.Now), p.Position)
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

// Commit commits the transaction. If the disk fails during the commit, it is unknown whether the transaction is stored.
func (w *writer) Commit(_ context.Context, p *group.Plan) error {
	err := w.point("commit")
	if err == nil {
		began := time.Now()
		err = mapError(exec(w.conn, "COMMIT"))
		if w.synchronous == store.Full {
			w.s.Syncs.Observe(int64(time.Since(began)))
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrFatal), sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy:
		return err // Nothing was written, or the error is already ErrFatal.
	default:
		return fmt.Errorf("%w: commit: %w", store.ErrFatal, err)
	}
	w.begun.Store(true)
	w.position = p.Position
	if len(p.Changed.Keys) > 0 || p.Ops[0].Run != nil { // A Run operation may change any document.
		w.s.documents.changed()
	}
	if err := w.point("committed"); err != nil {
		return fmt.Errorf("%w: %w", store.ErrFatal, err)
	}
	w.checkpoint()
	return nil
}

// Failed rolls back. When the disk is full, it releases the reserve once, so that running calls can finish.
func (w *writer) Failed(_ context.Context, p *group.Plan, err error) (again bool, _ error) {
	clear(w.members)
	w.nextPack.clear()
	if err = mapError(err); errors.Is(err, store.ErrFatal) {
		return false, err
	}
	if !w.conn.AutocommitEnabled() {
		if err := exec(w.conn, "ROLLBACK"); err != nil {
			return false, fmt.Errorf("%w: rollback: %w", store.ErrFatal, err)
		}
	}
	return errors.Is(err, store.ErrFull) && !p.Ops[0].Bare && w.s.reserve.release(), err
}

// checkpoint copies the log into the database when enough was written. SQLite's automatic checkpoint would ignore a failed fsync.
func (w *writer) checkpoint() {
	if w.written < checkpointBytes {
		return
	}
	w.written = 0
	err := mapError(pragma(w.conn, "wal_checkpoint(PASSIVE)", nil))
	switch {
	case err == nil, errors.Is(err, store.ErrCorrupt):
	case errors.Is(err, store.ErrFull):
		w.s.reserve.release() // Free the reserve for the next checkpoint. The committed changes are safe in the log.
	default:
		w.s.Lose(err) // The group is committed and synced in the log. Later writes cannot be trusted, so stop.
	}
}

// point calls FailPoint, and treats its error as an error of the disk.
func (w *writer) point(name string) error {
	if err := w.s.cfg.FailPoint(name); err != nil {
		return mapError(&failure{err})
	}
	return nil
}
