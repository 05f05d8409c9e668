package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

const insertCall = `INSERT INTO calls (position, namespace, call_id, status, revision, last_sequence, created, updated, ended, epoch,
	tool, caller, run_id, thread_id, parent_call, batch_id, crc, record, events_last, events_crc, events)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// writeCalls writes the call rows of a plan, and the memberships of new calls.
func (w *writer) writeCalls(p *group.Plan) (err error) {
	for _, r := range p.Rows {
		switch {
		case r.Created != nil:
			if err = w.addCall(r, p.Now); err == nil {
				err = w.addMembers(r.Call, r.Position)
			}
		case r.Call != nil:
			err = exec(w.conn, updateCall, string(r.Call.Status), r.Call.Revision, r.Sequence, int64(p.Now), group.EndOf(r.Call, p.Now),
				sumCall(r.Call, r.Record), r.Record, r.Position)
		default:
			err = exec(w.conn, "UPDATE calls SET last_sequence = ?, updated = ? WHERE position = ?", r.Sequence, int64(p.Now), r.Position)
		}
		if err != nil {
			return err
		}
	}
	if err = w.writePack(); err == nil {
		err = w.writeMembers()
	}
	return err
}

const updateCall = "UPDATE calls SET status = ?, revision = ?, last_sequence = ?, updated = ?, ended = ?, crc = ?, record = ? WHERE position = ?"

func (w *writer) addCall(r *group.Row, now call.Stamp) error {
	w.s.ids.add(ofCall(r.Call.Key()))
	if packs(r) {
		return w.addToPack(r, now)
	}
	return w.insertCall(r, now)
}

func (w *writer) insertCall(r *group.Row, now call.Stamp) error {
	c := r.Call
	st, err := w.conn.Prepare(insertCall)
	if err != nil {
		return &failure{err}
	}
	st.BindInt64(1, r.Position)
	st.BindText(2, c.Namespace)
	st.BindText(3, c.ID)
	st.BindText(4, string(c.Status))
	st.BindInt64(5, c.Revision)
	st.BindInt64(6, r.Sequence)
	st.BindInt64(7, rows.Nanos(c.Created))
	st.BindInt64(8, int64(now))
	// The column ended stays NULL, also for a call that has ended: the column updated has the time of the end, and the row needs no entry
	// in the index of ended.
	st.BindInt64(10, w.s.Identity().Epoch)
	st.BindText(11, c.Tool)
	st.BindText(12, c.Caller.Subject)
	bindID(st, 13, c.Run.ID)
	bindID(st, 14, c.Run.Thread)
	bindID(st, 15, c.Run.ParentCall)
	bindID(st, 16, c.BatchID)
	st.BindInt64(17, int64(sumCall(c, r.Record)))
	st.BindBytes(18, r.Record)
	if r.Last > 0 {
		events := r.Created.Events
		st.BindInt64(19, r.Last)
		st.BindInt64(20, int64(rows.SumEvents(events, r.Position, 1, r.Last)))
		st.BindBytes(21, events)
	}
	return run(st)
}

func sumCall(c *call.Call, record []byte) uint32 {
	return rows.SumCall(c.Key(), c.Status, c.Revision, record)
}

// callColumns lists the columns that a callScanner reads. The table must be named calls.
const callColumns = "position, calls.namespace, call_id, status, revision, last_sequence, crc, record"

// A callScanner reads calls from the columns of a statement. It reuses its buffers for each call.
type callScanner struct {
	row   []byte
	pack  pack
	cache *listCache // If cache is nil, each row is decoded, and the caller may change the call.
}

func (s *callScanner) scan(st *sqlite.Stmt) rows.Call {
	if inPack(st) {
		m := s.pack.find(st)
		return m.row()
	}
	r := rows.Call{Position: st.ColumnInt64(0)}
	last, crc := st.ColumnInt64(5), uint32(st.ColumnInt64(6))
	if s.cache != nil {
		if r.Call = s.cache.find(r.Position, st.ColumnInt64(4), last, crc); r.Call != nil {
			r.Key = r.Call.Key()
			return r
		}
	}
	b := s.row[:0]
	for col := 1; col <= 3; col++ {
		b = appendColumn(rows.AppendLength(b, st.ColumnLen(col)), st, col)
	}
	b = rows.AppendNumber(b, st.ColumnInt64(4))
	record := len(b)
	b = appendColumn(b, st, 7)
	s.row = b
	var err error
	if rows.SumParts(b) != crc {
		err = errors.New("checksum")
	} else {
		r.Call, err = call.DecodeCall(b[record:])
	}
	if err != nil {
		r.Key = call.Key{Namespace: st.ColumnText(1), ID: st.ColumnText(2)}
		r.Err = fmt.Errorf("%w: call %s: %w", store.ErrCorrupt, r.Key.ID, err)
		return r
	}
	r.Key = r.Call.Key()
	r.Call.LastSequence = max(r.Call.LastSequence, last)
	if s.cache != nil && r.Call.Status == call.Suspended && len(b)-record <= cachedRecord {
		s.cache.put(&cachedCall{position: r.Position, revision: st.ColumnInt64(4), last: last, crc: crc, call: r.Call})
	}
	return r
}

const (
	// selectCall looks in the packs first, because most calls are in packs. It is a single statement, so that it cannot miss a call that is
	// moved from a pack to a row at the same time.
	selectCall = selectPacked + " UNION ALL SELECT " + callColumns + " FROM calls WHERE namespace = ?1 AND call_id = ?2"
	// selectKnown returns a row when the call exists.
	selectKnown = "SELECT 1 FROM calls WHERE namespace = ?1 AND call_id = ?2 UNION ALL SELECT 1 FROM packed WHERE namespace = ?1 AND call_id = ?2"
)

// Call returns a call. The error is ErrNotFound for an unknown id, and ErrTrimmed when only a tombstone remains.
func (s *Store) Call(ctx context.Context, key call.Key) (*call.Call, error) {
	if s.ids.excludes(ofCall(key)) {
		return nil, cmp.Or(s.Refusal(), ctx.Err(), store.ErrNotFound)
	}
	var row rows.Call
	err := s.read(ctx, func(conn *sqlite.Conn) (err error) {
		row, err = s.find(conn, key)
		if err == nil && row.Position == 0 {
			err = s.absent(conn, key)
		}
		return err
	})
	return row.Call, cmp.Or(err, row.Err)
}

// find reads a call. The position is 0 when the call does not exist.
func (s *Store) find(conn *sqlite.Conn, key call.Key) (row rows.Call, err error) {
	scanner, ok := s.scanners.Get().(*callScanner)
	if !ok {
		scanner = new(callScanner)
	}
	defer func() {
		if cap(scanner.row)+cap(scanner.pack.members)+cap(scanner.pack.stored) <= 3*packBytes {
			s.scanners.Put(scanner)
		}
	}()
	scanner.pack.position = 0 // Forget the pack that the scanner read last, because it may have changed.
	err = query(conn, selectCall, func(st *sqlite.Stmt) error {
		row = scanner.scan(st)
		return rows.ErrEnough
	}, key.Namespace, key.ID)
	return row, err
}

// absent returns the error for a missing call: ErrTrimmed or ErrNotFound.
func (s *Store) absent(conn *sqlite.Conn, key call.Key) error {
	trimmed, err := s.isTrimmed(conn, key)
	switch {
	case err != nil:
		return err
	case trimmed:
		return store.ErrTrimmed
	}
	return store.ErrNotFound
}

func (s *Store) isTrimmed(conn *sqlite.Conn, key call.Key) (found bool, err error) {
	if !s.tombstones.Load() {
		return false, nil
	}
	err = query(conn, "SELECT 1 FROM tombstones WHERE namespace = ? AND call_id = ?", func(*sqlite.Stmt) error {
		found = true
		return nil
	}, key.Namespace, key.ID)
	return found, err
}

// remembers returns a function that reports whether the journal has a call. It is the argument of [spool.Spool.Sweep].
func (s *Store) remembers(ctx context.Context) func(call.Key) (bool, error) {
	return func(key call.Key) (found bool, err error) {
		err = s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, selectKnown, func(*sqlite.Stmt) error {
				found = true
				return nil
			}, key.Namespace, key.ID)
		})
		return found, err
	}
}

const selectUnfinished = "SELECT " + callColumns + ` FROM calls WHERE position IN (
	SELECT position FROM calls INDEXED BY calls_status WHERE status IN ` + rows.Begun + ` AND status <> 'SUCCEEDED' AND position > ?
	ORDER BY position LIMIT ?) ORDER BY position`

// Unfinished visits the calls that recovery must check. It holds no snapshot while visit runs, so visit may write.
func (s *Store) Unfinished(ctx context.Context, visit func(call.Key, *call.Call, error) error) error {
	const page = 128
	for after := int64(0); ; {
		var rows []rows.Call
		var scanner callScanner
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, selectUnfinished, func(st *sqlite.Stmt) error {
				rows = append(rows, scanner.scan(st))
				return nil
			}, after, page)
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := visit(r.Key, r.Call, r.Err); err != nil {
				return err
			}
			after = r.Position
		}
		if len(rows) < page {
			return nil
		}
	}
}
