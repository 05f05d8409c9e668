package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// Calls returns a page of calls.
func (s *Store) Calls(ctx context.Context, q call.Query) (page call.Page, err error) {
	if s.hasNoCalls(q) {
		return page, cmp.Or(s.Refusal(), ctx.Err())
	}
	text, args, rest := plan(q)
	scanner := callScanner{cache: &s.cache}
	finder := rows.NewFinder(&q)
	for after := q.After; ; {
		more := false
		began := time.Now()
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, text, func(st *sqlite.Stmt) (err error) {
				beyond := from(q, after)
				after = st.ColumnInt64(0)
				switch {
				case isPack(st):
					after, err = scanner.eachPacked(conn, st, q, beyond, finder)
				case inPack(st):
					scanner.pack.find(st)
					err = scanner.takePacked(conn, q, after, finder)
				case wanted(rest, st):
					err = finder.Take(scanner.scan(st))
				default:
					err = finder.Skip(after)
				}
				if err != nil {
					return err
				}
				if more = time.Since(began) > snapshotTime; more {
					return rows.ErrEnough
				}
				return nil
			}, append([]any{from(q, after)}, args...)...)
		})
		if err != nil {
			return page, err
		}
		if finder.Full() || !more {
			return finder.Page(), nil
		}
	}
}

const (
	selectChildren = "SELECT position, run_id FROM calls INDEXED BY calls_parent WHERE namespace = ? AND parent_call = ? ORDER BY position DESC LIMIT ?"
	selectCallAt   = "SELECT " + callColumns + " FROM calls WHERE position = ?"
)

// Children returns one call of each run that a parent started.
func (s *Store) Children(ctx context.Context, namespace string, parents []string) ([]*call.Call, error) {
	var found []rows.Call
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		oldest, left := map[string]int64{}, store.MaxSeeks
		for _, id := range parents {
			err := query(conn, selectChildren, func(st *sqlite.Stmt) error {
				left--
				run, at := st.ColumnText(1), st.ColumnInt64(0)
				if known, ok := oldest[run]; !ok || at < known {
					oldest[run] = at
				}
				return nil
			}, namespace, id, min(left, call.MaxChildren))
			if err != nil {
				return err
			}
		}
		scanner := callScanner{cache: &s.cache}
		for _, at := range oldest {
			if err := query(conn, selectCallAt, func(st *sqlite.Stmt) error { found = append(found, scanner.scan(st)); return nil }, at); err != nil {
				return err
			}
		}
		return nil
	})
	return rows.Sorted(found), err
}

// hasNoCalls reports whether the run or thread of a query certainly has no calls. This saves a query for each new run and thread.
func (s *Store) hasNoCalls(q call.Query) bool {
	return q.Namespace != "" && (q.Run != "" && s.ids.excludes(member{q.Namespace, inRun, q.Run}) ||
		q.Thread != "" && s.ids.excludes(member{q.Namespace, inThread, q.Thread}))
}

// from returns the position after which a page begins, in list order.
func from(q call.Query, after int64) int64 {
	if after == 0 && !q.OldestFirst {
		return 1<<63 - 1
	}
	return after
}

// selects returns the beginning of a statement. It includes the extra columns of wanted only when wanted needs them.
func selects(rest call.Query) string {
	if !filters(rest) {
		return "SELECT " + callColumns + " FROM "
	}
	return "SELECT " + callColumns + ", tool, caller, run_id, thread_id, parent_call, batch_id, created FROM "
}

// selectsMember is like selects, for the row or pack that a bit in the table members stands for.
func selectsMember(rest call.Query) string {
	const one = "SELECT " + memberAt + ", coalesce(calls.namespace, packs.namespace), call_id, status, coalesce(revision, packs.position)," +
		" coalesce(last_sequence, packs.last), crc, coalesce(record, packs.members)"
	if !filters(rest) {
		return one + " FROM "
	}
	return one + ", tool, caller, run_id, thread_id, parent_call, batch_id, created FROM "
}

// everything returns the statement for all calls of all namespaces. It returns rows of calls, and whole packs.
func everything(q call.Query) string {
	inRows, packs, order := "position < ?1", "position < ?1", " ORDER BY position DESC"
	if q.OldestFirst {
		inRows, packs, order = "position > ?1", "position > ?1 - 8 AND last > ?1", " ORDER BY position"
	}
	others := ""
	if filters(q) {
		others = ", NULL, NULL, NULL, NULL, NULL, NULL, NULL"
	}
	return selects(q) + "calls WHERE " + inRows + " UNION ALL SELECT position, namespace, NULL, 0, position, last, 0, members" + others + " FROM packs WHERE " + packs + order
}

// isPack reports whether the columns are those of a whole pack.
func isPack(st *sqlite.Stmt) bool { return st.ColumnType(3) == sqlite.TypeInteger }

// eachPacked gives finder each call of a pack after the position beyond. It returns the new position of the list.
func (s *callScanner) eachPacked(conn *sqlite.Conn, st *sqlite.Stmt, q call.Query, beyond int64, finder *rows.Finder) (after int64, err error) {
	s.pack.find(st)
	at, end, step := min(s.pack.last, beyond-1), s.pack.position, int64(-1)
	if q.OldestFirst {
		at, end, step = max(s.pack.position, beyond+1), s.pack.last, 1
	}
	for ; err == nil && (end-at)*step >= 0; at += step {
		err = s.takePacked(conn, q, at, finder)
	}
	return end, err
}

// takePacked gives finder one call of the current pack, if the call matches the query. For a broken call, it reads the caller, run and
// thread from the table members. A list therefore never shows the id of another caller's call. The tool and time of a broken call are
// unknown and count as matching.
func (s *callScanner) takePacked(conn *sqlite.Conn, q call.Query, position int64, finder *rows.Finder) error {
	m, err := s.pack.named(conn, position)
	if err != nil {
		return err
	}
	if m.whole() && !m.mentions(only(q.Tools), q.Caller, q.Run, q.Thread) {
		return finder.Skip(position)
	}
	r := m.row()
	is := r.Err == nil && asked(q, r.Call)
	if r.Err != nil && q.Action+q.ParentCall+q.Batch == "" && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, call.Succeeded)) {
		is, err = m.memberOf(conn, store.Feed{Namespace: s.pack.namespace, Run: q.Run, Thread: q.Thread, Caller: q.Caller})
	}
	if err != nil {
		return err
	}
	if !is {
		return finder.Skip(position)
	}
	return finder.Take(r)
}

// only returns the only element of a list, or "".
func only(list []string) string {
	if len(list) != 1 {
		return ""
	}
	return list[0]
}

// asked reports whether a finished call matches a query.
func asked(q call.Query, c *call.Call) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.Status)) && q.Action == "" &&
		is(q.Namespace, c.Namespace) && (len(q.Tools) == 0 || slices.Contains(q.Tools, c.Tool)) && is(q.Caller, c.Caller.Subject) && is(q.Run, c.Run.ID) && is(q.Thread, c.Run.Thread) &&
		is(q.ParentCall, c.Run.ParentCall) && is(q.Batch, c.BatchID) &&
		(q.CreatedAfter.IsZero() || rows.Nanos(c.Created) >= rows.Nanos(q.CreatedAfter)) && (q.CreatedBefore.IsZero() || rows.Nanos(c.Created) < rows.Nanos(q.CreatedBefore))
}

// plan chooses the index that selects the fewest rows for a query. The first parameter of the returned statement is the position after
// which the page begins. rest has the conditions that the index does not cover; wanted checks them.
func plan(q call.Query) (text string, args []any, rest call.Query) {
	rest = q
	beyond, order := " AND position < ?1", " ORDER BY position DESC"
	if q.OldestFirst {
		beyond, order = " AND position > ?1", " ORDER BY position"
	}
	if q.Namespace == "" {
		if q.Action != "" {
			return selects(rest) + "calls WHERE position IN (SELECT call FROM suspensions INDEXED BY suspensions_open WHERE open = 1 AND action = ?2)" + beyond + order, []any{q.Action}, rest
		}
		return everything(q), nil, rest
	}
	args, rest.Namespace = []any{q.Namespace}, ""
	narrow := func(index, column string, id *string) (string, []any, call.Query) {
		args, *id = append(args, *id), ""
		return selects(rest) + "calls INDEXED BY " + index + " WHERE namespace = ?2 AND " + column + " = ?3" + beyond + order, args, rest
	}
	membersOf := func(kind, column string, id *string) (string, []any, call.Query) {
		name, row := *id, "calls.namespace = ?2" // A bit may be outdated, so the row must confirm it.
		if column != "" {
			row += " AND calls." + column + " = ?3"
		}
		if id != &rest.Namespace {
			*id = ""
		}
		blocks, order := " AND m.block <= ?1 / 64 AND "+memberAt+" < ?1", " ORDER BY m.block DESC, n DESC"
		if q.OldestFirst {
			blocks, order = " AND m.block >= ?1 / 64 AND "+memberAt+" > ?1", " ORDER BY m.block, n"
		}
		return selectsMember(rest) + membersOf + joinMember + " WHERE m.namespace = ?2 AND m.kind = '" + kind + "' AND m.name = ?3" + memberBits + blocks +
			" AND (" + row + " OR packs.namespace = ?2)" + order, append(args, name), rest
	}
	switch {
	case q.Action != "":
		if beyond, order = " AND call < ?1", " ORDER BY call DESC"; q.OldestFirst {
			beyond, order = " AND call > ?1", " ORDER BY call"
		}
		return selects(rest) + "suspensions INDEXED BY suspensions_open CROSS JOIN calls ON position = call" +
			" WHERE suspensions.namespace = ?2 AND open = 1 AND action = ?3" + beyond + order, append(args, q.Action), rest
	case q.Batch != "":
		return narrow("calls_batch", "batch_id", &rest.Batch)
	case q.ParentCall != "":
		return narrow("calls_parent", "parent_call", &rest.ParentCall)
	case q.WaitsInThread():
		rest.Statuses = nil
		return narrow("calls_waiting", "status = 'SUSPENDED' AND thread_id", &rest.Thread)
	case q.Run != "":
		return membersOf(inRun, "run_id", &rest.Run)
	case q.Thread != "":
		return membersOf(inThread, "thread_id", &rest.Thread)
	case len(q.Statuses) > 0 && !slices.Contains(q.Statuses, call.Succeeded):
		rest.Statuses = nil
		return eachStatus(q, rest, beyond) + order, args, rest
	case q.Caller != "":
		return membersOf(ofCaller, "caller", &rest.Caller)
	}
	return membersOf(inNamespace, "", &rest.Namespace)
}

// eachStatus returns one statement for each status of the query, joined with UNION ALL.
func eachStatus(q, rest call.Query, beyond string) string {
	var parts []string
	for _, status := range slices.Compact(slices.Sorted(slices.Values(q.Statuses))) { // The rows of each part are in list order, so SQLite only merges them.
		parts = append(parts, selects(rest)+"calls INDEXED BY calls_status WHERE namespace = ?2 AND status = '"+safe(status)+"' AND status <> 'SUCCEEDED'"+beyond)
	}
	return strings.Join(parts, " UNION ALL ")
}

// safe returns a status that may be part of a statement, or "", which selects nothing, for an unknown status.
func safe(s call.Status) string {
	if !s.Valid() {
		return ""
	}
	return string(s)
}

// filters reports whether wanted has conditions to check.
func filters(q call.Query) bool {
	return len(q.Statuses)+len(q.Tools) > 0 || q.Namespace+q.Caller+q.Run+q.Thread+q.ParentCall+q.Batch != "" || !q.CreatedAfter.IsZero() || !q.CreatedBefore.IsZero()
}

// wanted reports whether a row matches the conditions in q.
func wanted(q call.Query, st *sqlite.Stmt) bool {
	const tool = 8 // the first column after callColumns
	is := func(want string, col int) bool { return want == "" || want == st.ColumnText(col) }
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, call.Status(st.ColumnText(3)))) &&
		is(q.Namespace, 1) && (len(q.Tools) == 0 || slices.Contains(q.Tools, st.ColumnText(tool))) && is(q.Caller, tool+1) && is(q.Run, tool+2) && is(q.Thread, tool+3) &&
		is(q.ParentCall, tool+4) && is(q.Batch, tool+5) &&
		(q.CreatedAfter.IsZero() || st.ColumnInt64(tool+6) >= rows.Nanos(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || st.ColumnInt64(tool+6) < rows.Nanos(q.CreatedBefore))
}
