package sqlite

import (
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
)

// checkpointBytes is about how much is written before the log is copied into the database: large enough that pages
// which change often are copied once, small enough that the pause stays short.
const checkpointBytes = 4 << 20

// transaction writes a group. A nil error means that each op's err says what became of it; any other that nothing of
// the group is there, or with ErrFatal that nobody knows.
func (w *writer) transaction(group []*op) error {
	if o := group[0]; o.bare {
		if !w.begun.Load() {
			return store.ErrFull
		}
		return known(o.admin(w))
	}
	if err := w.begin(group); err != nil {
		return known(err)
	}
	err := w.apply(group)
	if err == nil {
		err = w.commit()
	}
	if err == nil {
		w.begun.Store(true)
		w.groups.Observe(int64(len(group)))
		if err := w.point("committed"); err != nil {
			return fmt.Errorf("%w: %w", store.ErrFatal, err)
		}
		return nil
	}
	if errors.Is(err, store.ErrFatal) {
		return err
	}
	if !w.conn.AutocommitEnabled() {
		if err := exec(w.conn, "ROLLBACK"); err != nil {
			return fmt.Errorf("%w: rollback: %w", store.ErrFatal, err)
		}
	}
	return err
}

// begin opens a transaction that will be as durable as the group needs.
func (w *writer) begin(group []*op) error {
	need := store.Normal
	for _, o := range group {
		if o.admin != nil || o.change.Durability == store.Full || !w.begun.Load() {
			need = store.Full
			break
		}
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
	return exec(w.conn, "BEGIN IMMEDIATE")
}

// apply writes each op that is not refused. Its error is the database's.
func (w *writer) apply(group []*op) error {
	clear(w.members) // of a group that failed
	w.gathered.clear()
	clear(w.kept)
	w.kept = w.kept[:0]
	w.written += pageSize // a commit costs a page at least
	if !w.begun.Load() {
		if err := w.s.storeEpoch(w.conn); err != nil {
			return err
		}
	}
	for _, o := range group {
		if o.admin != nil {
			o.err = o.admin(w)
		} else {
			o.err = w.applyChange(o)
		}
		if o.err != nil {
			var f *failure
			if errors.As(o.err, &f) {
				return known(o.err)
			}
			if o.admin != nil {
				return o.err
			}
		}
		w.written += o.size()
	}
	err := w.writePack()
	if err == nil {
		err = w.writeMembers()
	}
	if err == nil {
		err = w.writeRecords()
	}
	if err != nil {
		return known(err)
	}
	if err := w.point("write"); err != nil {
		return err
	}
	// Written even when all were refused: who was told that it came too late must stay so.
	return known(exec(w.conn, "UPDATE meta SET clock = ?, position = ?", w.s.clock.now().UnixNano(), w.position))
}

// commit ends the transaction. When the disk fails here, nobody knows whether it is there.
func (w *writer) commit() error {
	err := w.point("commit")
	if err == nil {
		began := time.Now()
		err = known(exec(w.conn, "COMMIT"))
		if w.synchronous == store.Full {
			w.syncs.Observe(int64(time.Since(began)))
		}
	}
	if err == nil || errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrFatal) {
		return err
	}
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy { // nothing was written
		return err
	}
	return fmt.Errorf("%w: commit: %w", store.ErrFatal, err)
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
		// The group is committed and its log was synced; what comes later cannot be trusted.
		w.s.refuse(store.ErrFatal)
	}
}

// point calls the FailPoint, whose error is taken for the disk's.
func (w *writer) point(name string) error {
	if err := w.s.cfg.FailPoint(name); err != nil {
		return known(&failure{err})
	}
	return nil
}

// next gives a position of the feed. One that was given in vain is never given again.
func (w *writer) next() int64 {
	w.position++
	return w.position
}
