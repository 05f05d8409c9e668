package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

// A salvageTable is how a table is read: by its position or rowid, else from both ends of its key.
type salvageTable struct {
	name, columns string
	rowid         bool
	key           string
}

func salvageTables() []salvageTable {
	return []salvageTable{
		{name: "calls", rowid: true, columns: "position, namespace, call_id, status, revision, last_sequence, created, updated, ended, epoch, tool, caller, run_id, thread_id, parent_call, batch_id, crc, record, events_last, events_crc, events"},
		{name: "events", rowid: true, columns: "position, call, epoch, first, last, crc, events"},
		{name: "records", rowid: true, columns: "position, namespace, kind, key, call_id, created, crc, bytes"},
		{name: "documents", rowid: true, columns: "namespace, scope, scope_id, key, revision, deleted, changed, crc, value"},
		{name: "actions", rowid: true, columns: "position, namespace, id, call_id, state, phase, ends, due, created, crc, record"},
		{name: "batches", key: "namespace, batch_id", columns: "namespace, batch_id, created, ended, trimmed, crc, record"},
		{name: "decisions", key: "namespace, id", columns: "namespace, id, crc, decision"},
		{name: "runs", key: "namespace, id", columns: "namespace, id, state, reason, call_id, changed"},
		{name: "tombstones", key: "namespace, call_id", columns: "namespace, call_id, digest, ended, trimmed"},
	}
}

// beyond is how far behind the newest position that is known the next is given, when nobody knows what the last was: cursors
// of feeds that clients have must not name other events.
const beyond = 1 << 20

// copy fills the new journal, in one transaction.
func (s *salvage) copy() error {
	sure := false
	if m, err := readMeta(s.from); err == nil && m.epoch > 0 {
		s.meta, s.newest, sure = m, m.position, true
	}
	if err := exec(s.w.conn, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, t := range salvageTables() {
		if err := s.table(t); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	if err := s.packs(); err != nil {
		return fmt.Errorf("packs: %w", err)
	}
	err := query(s.w.conn, `SELECT max(coalesce((SELECT max(position) FROM calls), 0), coalesce((SELECT max(position) FROM events), 0),
		coalesce((SELECT max(call) FROM events), 0), coalesce((SELECT max(position) FROM records), 0), coalesce((SELECT max(position) FROM actions), 0))`, func(st *sqlite.Stmt) error {
		s.newest = max(s.newest, st.ColumnInt64(0))
		return nil
	})
	if err != nil {
		return err
	}
	if !sure {
		s.newest += beyond
	}
	for _, step := range []func() error{s.lostCalls, s.rebuild, s.keepIdentity} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := exec(s.w.conn, "COMMIT"); err != nil {
		return err
	}
	if err := check(s.ctx, s.w.conn); err != nil {
		return err
	}
	return known(pragma(s.w.conn, "wal_checkpoint(TRUNCATE)", nil))
}

// lacks reports whether the journal is of a release that has no such table.
func (s *salvage) lacks(table string) bool {
	none := true
	broken := s.each("SELECT 1 FROM sqlite_schema WHERE name = ?", func(*sqlite.Stmt) error { none = false; return nil }, table)
	return none && !broken
}

// table copies a table as far as it can be read.
func (s *salvage) table(t salvageTable) error {
	if s.lacks(t.name) {
		return nil
	}
	into := SalvagedTable{Name: t.name}
	insert := "INSERT OR IGNORE INTO " + t.name + " (" + t.columns + ") VALUES (?" + strings.Repeat(", ?", strings.Count(t.columns, ",")) + ")"
	var failed error // of the new journal
	take := func(st *sqlite.Stmt) error {
		values := row(st, 1)
		if err := exec(s.w.conn, insert, values...); err != nil {
			if sqlite.ErrCode(errors.Unwrap(err)).ToPrimary() != sqlite.ResultConstraint { // a type that the column does not take is damage
				failed = err
				return err
			}
			into.Damaged = true
			return nil
		}
		if n := s.w.conn.Changes(); n == 0 {
			return nil // from both ends
		}
		into.Rows++
		return nil
	}
	if t.rowid {
		into.Damaged = s.byRowid(t, take) || into.Damaged
	} else if s.each("SELECT 0, "+t.columns+" FROM "+t.name+" ORDER BY "+t.key, take) {
		into.Damaged = true
		s.each("SELECT 0, "+t.columns+" FROM "+t.name+" ORDER BY "+strings.ReplaceAll(t.key, ",", " DESC,")+" DESC", take)
	}
	s.report.Tables = append(s.report.Tables, into)
	return cmp.Or(failed, s.ctx.Err())
}

// each calls take with each row that a statement gives and reports whether it broke off.
func (s *salvage) each(text string, take func(*sqlite.Stmt) error, args ...any) (broken bool) {
	return query(s.from, text, take, args...) != nil
}

// probe is how many rowids behind a broken place are looked up one by one before the table is read on.
const probe = 512

// byRowid reads a table by its rowids. Behind a broken page it looks them up one by one until it is past it.
func (s *salvage) byRowid(t salvageTable, take func(*sqlite.Stmt) error) (damaged bool) {
	var last int64
	s.each("SELECT rowid FROM "+t.name+" ORDER BY rowid DESC LIMIT 1", func(st *sqlite.Stmt) error {
		last = st.ColumnInt64(0)
		return nil
	})
	last = max(last, s.newest)
	seen := int64(0)
	note := func(st *sqlite.Stmt) error {
		seen = max(seen, st.ColumnInt64(0))
		return take(st)
	}
	scan := "SELECT rowid, " + t.columns + " FROM " + t.name + " WHERE rowid > ? ORDER BY rowid"
	one := "SELECT rowid, " + t.columns + " FROM " + t.name + " WHERE rowid = ?"
	for s.each(scan, note, seen) && s.ctx.Err() == nil {
		damaged = true
		for n := seen + 1; n <= seen+probe; n++ {
			s.each(one, take, n)
		}
		if seen += probe; seen >= last {
			break
		}
	}
	return damaged
}

// row is the values of a row from a column on.
func row(st *sqlite.Stmt, from int) (values []any) {
	for i := from; i < st.ColumnCount(); i++ {
		switch st.ColumnType(i) {
		case sqlite.TypeInteger:
			values = append(values, st.ColumnInt64(i))
		case sqlite.TypeText:
			values = append(values, st.ColumnText(i))
		case sqlite.TypeBlob:
			values = append(values, columnBytes(st, i))
		default:
			values = append(values, nil)
		}
	}
	return values
}

// lostCalls makes tombstones of the calls that an index still names and no row has any more, also where a row has another
// name in their place: one of the two was damaged, and neither id may run again.
func (s *salvage) lostCalls() error {
	var failed error
	take := func(st *sqlite.Stmt) error {
		key := call.Key{Namespace: st.ColumnText(0), ID: st.ColumnText(1)}
		found := false
		err := query(s.w.conn, "SELECT 1 FROM calls WHERE namespace = ? AND call_id = ?", func(*sqlite.Stmt) error {
			found = true
			return nil
		}, key.Namespace, key.ID)
		if err == nil && !found {
			now := s.meta.clock.UnixNano()
			err = exec(s.w.conn, "INSERT OR IGNORE INTO tombstones (namespace, call_id, digest, ended, trimmed) VALUES (?, ?, '', ?, ?)", key.Namespace, key.ID, now, now)
			if s.w.conn.Changes() > 0 {
				s.report.Lost = append(s.report.Lost, key)
			}
		}
		failed = err
		return err
	}
	for _, index := range []string{"calls INDEXED BY calls_id", "packed"} {
		text := "SELECT namespace, call_id FROM " + index + " ORDER BY namespace"
		if s.each(text+", call_id", take) && failed == nil {
			s.each(text+" DESC, call_id DESC", take)
		}
	}
	return failed
}

// packs makes rows of the calls in packs. Journals of old have none.
func (s *salvage) packs() error {
	if s.lacks("packs") {
		return nil
	}
	into := SalvagedTable{Name: "packs"}
	var failed error // of the new journal
	take := func(st *sqlite.Stmt) error {
		p := pack{position: st.ColumnInt64(1), last: st.ColumnInt64(2), namespace: st.ColumnText(3), updated: st.ColumnInt64(4), epoch: st.ColumnInt64(5)}
		p.load(st, 6)
		for at := p.position; at <= min(p.last, p.position+packCalls-1); at++ {
			m := p.member(at)
			if m.id == "" {
				into.Damaged = true // its id is in the index
				continue
			}
			if failed = s.w.restore(&m, nil); failed == nil {
				into.Rows++
			} else if sqlite.ErrCode(errors.Unwrap(failed)).ToPrimary() == sqlite.ResultConstraint { // another has its name
				failed, into.Damaged = nil, true
			} else {
				return failed
			}
		}
		return nil
	}
	into.Damaged = s.byRowid(salvageTable{name: "packs", columns: "position, last, namespace, updated, epoch, members"}, take) || into.Damaged
	s.report.Tables = append(s.report.Tables, into)
	return cmp.Or(failed, s.ctx.Err())
}

// rebuild makes what is derived of the calls, and marks what their logs lack.
func (s *salvage) rebuild() error {
	w := s.w
	type stored struct {
		callRow
		last int64 // of the log
	}
	for after := int64(0); ; {
		var rows []stored
		err := query(w.conn, "SELECT "+callColumns+" FROM calls WHERE position > ? ORDER BY position LIMIT 500", func(st *sqlite.Stmt) error {
			rows = append(rows, stored{new(callScanner).scan(st), st.ColumnInt64(5)})
			return nil
		}, after)
		if err != nil || len(rows) == 0 {
			return errors.Join(err, w.writeMembers())
		}
		for _, r := range rows {
			after = r.position
			whole, err := s.mendLog(r.position, r.last)
			if err == nil && r.call != nil {
				err = w.enrol(r.call, r.position)
				for i := range r.call.Rounds {
					if err == nil {
						ticket := &r.call.Rounds[i].Suspension
						err = w.writeSuspension(group.Name{Namespace: r.key.Namespace, ID: ticket.ID}, group.SuspensionOf(r.call, ticket, r.position))
					}
				}
			}
			if err != nil {
				return err
			}
			if !whole || r.err != nil {
				s.report.Refused = append(s.report.Refused, r.key)
			}
		}
	}
}

// mendLog puts a chunk that is refused in the place of events that are lost, so that nobody takes those behind them for the
// next. It reports whether the log is whole.
func (s *salvage) mendLog(position, last int64) (whole bool, err error) {
	whole = true
	var chunks []rows.Chunk
	err = query(s.w.conn, `SELECT epoch, 1, events_last, events_crc, events FROM calls WHERE position = ?1 AND events_last IS NOT NULL
		UNION ALL SELECT * FROM (SELECT epoch, first, last, crc, events FROM events WHERE call = ?1 ORDER BY last)`, func(st *sqlite.Stmt) error {
		chunks = append(chunks, rows.Chunk{Call: position, Epoch: st.ColumnInt64(0), First: st.ColumnInt64(1), Last: st.ColumnInt64(2), CRC: uint32(st.ColumnInt64(3)), Events: columnBytes(st, 4)})
		return nil
	}, position)
	if err != nil {
		return false, err
	}
	next, epoch := int64(1), int64(1)
	fill := func(to int64) error {
		if next > to {
			return nil
		}
		whole = false
		s.newest++
		return exec(s.w.conn, "INSERT INTO events (position, call, epoch, first, last, crc, events) VALUES (?, ?, ?, ?, ?, ?, x'')",
			s.newest, position, epoch, next, to, rows.SumEvents(nil, position, next, to)+1)
	}
	slices.SortFunc(chunks, func(a, b rows.Chunk) int { return cmp.Compare(a.Last, b.Last) })
	for _, c := range chunks {
		epoch, s.epoch = c.Epoch, max(s.epoch, c.Epoch)
		if err := fill(c.First - 1); err != nil {
			return false, err
		}
		if _, err := c.Decode(c.First-1, int(c.Last-c.First+1)); errors.Is(err, store.ErrCorrupt) {
			whole = false
		}
		next = max(next, c.Last+1)
	}
	return whole, fill(last)
}
