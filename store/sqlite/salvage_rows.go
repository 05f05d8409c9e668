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

// A salvageTable says how to read a table: by its position or rowid, or otherwise from both ends of its key.
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

// beyond is added to the newest known position when the last assigned position is unknown. Without this gap, an old feed cursor of a client
// could refer to a new event.
const beyond = 1 << 20

// copy fills the new journal in one transaction.
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
	return mapError(pragma(s.w.conn, "wal_checkpoint(TRUNCATE)", nil))
}

// lacks reports whether the journal comes from a release without this table.
func (s *salvage) lacks(table string) bool {
	none := true
	broken := s.each("SELECT 1 FROM sqlite_schema WHERE name = ?", func(*sqlite.Stmt) error { none = false; return nil }, table)
	return none && !broken
}

// sound reports whether SQLite finds no damage in a table and its indexes. Some damage makes rows disappear without an error, for example a
// wrong number of rows on a page.
func (s *salvage) sound(table string) bool {
	found := ""
	broken := s.each("PRAGMA integrity_check("+table+")", func(st *sqlite.Stmt) error { found = st.ColumnText(0); return nil })
	return !broken && found == "ok"
}

// table copies the readable rows of a table.
func (s *salvage) table(t salvageTable) error {
	if s.lacks(t.name) {
		return nil
	}
	into := SalvagedTable{Name: t.name, Damaged: !s.sound(t.name)}
	insert := "INSERT OR IGNORE INTO " + t.name + " (" + t.columns + ") VALUES (?" + strings.Repeat(", ?", strings.Count(t.columns, ",")) + ")"
	var failed error // an error of the new journal, not of the damaged one
	take := func(st *sqlite.Stmt) error {
		values := row(st, 1)
		if err := exec(s.w.conn, insert, values...); err != nil {
			if sqlite.ErrCode(errors.Unwrap(err)).ToPrimary() != sqlite.ResultConstraint { // A value with the wrong type for its column means that the row is damaged.
				failed = err
				return err
			}
			into.Damaged = true
			return nil
		}
		if n := s.w.conn.Changes(); n == 0 {
			return nil // The row was already copied from the other end.
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

// each invokes take for each row of a statement, and reports whether the statement failed.
func (s *salvage) each(text string, take func(*sqlite.Stmt) error, args ...any) (broken bool) {
	return query(s.from, text, take, args...) != nil
}

// probe is the number of rowids after an unreadable row that are looked up one by one before the scan is tried again.
const probe = 512

// byRowid reads a table by its rowids. After a broken page it looks up rowids one by one until the scan works again.
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

// row returns the values of a row, starting with column from.
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

// lostCalls makes tombstones for calls that an index names but that have no row. If the id in a row differs from the id in the index, one
// of the two is damaged. Neither id may run again: the id in the index gets a tombstone, and the copied row still has the other id.
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
			now := int64(s.meta.clock)
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

// packs turns the calls in packs into rows. Older journals have no packs.
func (s *salvage) packs() error {
	if s.lacks("packs") {
		return nil
	}
	into := SalvagedTable{Name: "packs", Damaged: !s.sound("packs") || !s.sound("packed")}
	var failed error // an error of the new journal, not of the damaged one
	take := func(st *sqlite.Stmt) error {
		p := pack{position: st.ColumnInt64(1), last: st.ColumnInt64(2), namespace: st.ColumnText(3), updated: st.ColumnInt64(4), epoch: st.ColumnInt64(5)}
		p.load(st, 6)
		for at := p.position; at <= min(p.last, p.position+packCalls-1); at++ {
			m := p.member(at)
			if m.id == "" {
				into.Damaged = true // The id is unknown here, but lostCalls finds it in the index.
				continue
			}
			if failed = s.w.restore(&m, nil); failed == nil {
				into.Rows++
			} else if sqlite.ErrCode(errors.Unwrap(failed)).ToPrimary() == sqlite.ResultConstraint { // Skip the call, because another row has the same id.
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

// rebuild restores the derived tables from the calls, and marks gaps in their logs.
func (s *salvage) rebuild() error {
	w := s.w
	type stored struct {
		rows.Call
		last int64 // last sequence of the log
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
			after = r.Position
			c := r.Call.Call
			whole, err := s.mendLog(r.Position, r.last)
			if err == nil && c != nil {
				err = w.addMembers(c, r.Position)
				for i := range c.Rounds {
					if err == nil {
						ticket := &c.Rounds[i].Suspension
						err = w.writeSuspension(group.Name{Namespace: r.Key.Namespace, ID: ticket.ID}, group.SuspensionOf(c, ticket, r.Position))
					}
				}
			}
			if err != nil {
				return err
			}
			if !whole || r.Err != nil {
				s.report.Refused = append(s.report.Refused, r.Key)
			}
		}
	}
}

// mendLog inserts an unreadable chunk for lost events, so that readers notice the gap. whole reports whether the log had no gap.
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
