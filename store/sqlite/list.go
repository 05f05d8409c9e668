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
)

// Calls returns a page of calls.
func (s *Store) Calls(ctx context.Context, q store.Query) (page store.Page, err error) {
	limit := cmp.Or(q.Limit, 50)
	text, args, rest := plan(q)
	var rows []callRow
	for after := q.After; ; {
		more := false
		began := time.Now()
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, text, func(st *sqlite.Stmt) error {
				after = st.ColumnInt64(0)
				if !wanted(rest, st) {
					if time.Since(began) > snapshotTime {
						more = true
						return errEnough
					}
					return nil
				}
				if rows = append(rows, scanCall(st)); len(rows) > limit {
					return errEnough
				}
				return nil
			}, append([]any{from(q, after)}, args...)...)
		})
		if err != nil {
			return page, err
		}
		if !more || len(rows) > limit {
			break
		}
	}
	if len(rows) > limit {
		rows = rows[:limit]
		page.Next = rows[limit-1].position
	}
	for _, r := range rows {
		c, err := r.decode()
		if err != nil {
			page.Corrupt = append(page.Corrupt, r.key)
			continue
		}
		page.Calls = append(page.Calls, c)
	}
	return page, nil
}

// from is the position that a page begins beyond.
func from(q store.Query, after int64) int64 {
	if after == 0 && !q.OldestFirst {
		return 1<<63 - 1
	}
	return after
}

// plan chooses the index for a query: the narrowest that its words allow. The statement's first parameter is the
// position that the page begins beyond. rest is what the index does not know and wanted must look at.
func plan(q store.Query) (text string, args []any, rest store.Query) {
	rest = q
	beyond, order := " AND position < ?1", " ORDER BY position DESC"
	if q.OldestFirst {
		beyond, order = " AND position > ?1", " ORDER BY position"
	}
	const columns = "SELECT " + callColumns + ", tool, caller, run_id, thread_id, parent_call, batch_id, created FROM calls "
	if q.Namespace == "" {
		if q.Action != "" {
			return columns + "WHERE position IN (SELECT call FROM suspensions INDEXED BY suspensions_open WHERE open = 1 AND action = ?2)" + beyond + order, []any{q.Action}, rest
		}
		return columns + "WHERE TRUE" + beyond + order, nil, rest
	}
	args, rest.Namespace = []any{q.Namespace}, ""
	narrow := func(index, column string, id *string) (string, []any, store.Query) {
		args, *id = append(args, *id), ""
		return columns + "INDEXED BY " + index + " WHERE namespace = ?2 AND " + column + " = ?3" + beyond + order, args, rest
	}
	membersOf := func(kind, name string) (string, []any, store.Query) {
		blocks, order := " AND m.block <= ?1 / 64", " ORDER BY m.block DESC, n DESC"
		if q.OldestFirst {
			blocks, order = " AND m.block >= ?1 / 64", " ORDER BY m.block, n"
		}
		return strings.TrimSuffix(columns, "calls ") + membersOf + " CROSS JOIN calls ON position = " + memberAt +
			" WHERE m.namespace = ?2 AND m.kind = '" + kind + "' AND m.name = ?3" + memberBits + blocks + beyond + order, append(args, name), rest
	}
	switch {
	case q.Batch != "":
		return narrow("calls_batch", "batch_id", &rest.Batch)
	case q.ParentCall != "":
		return narrow("calls_parent", "parent_call", &rest.ParentCall)
	case q.Run != "":
		return membersOf(inRun, q.Run)
	case q.Thread != "":
		return membersOf(inThread, q.Thread)
	case q.Action != "":
		if beyond, order = " AND call < ?1", " ORDER BY call DESC"; q.OldestFirst {
			beyond, order = " AND call > ?1", " ORDER BY call"
		}
		return strings.TrimSuffix(columns, "calls ") + "suspensions INDEXED BY suspensions_open CROSS JOIN calls ON position = call" +
			" WHERE suspensions.namespace = ?2 AND open = 1 AND action = ?3" + beyond + order, append(args, q.Action), rest
	}
	if len(q.Statuses) == 0 || slices.Contains(q.Statuses, call.Succeeded) {
		if q.Caller != "" {
			return membersOf(ofCaller, q.Caller)
		}
		return membersOf(inNamespace, "")
	}
	rest.Statuses = nil
	var parts []string
	for _, status := range q.Statuses { // each in its order: SQLite merges them
		parts = append(parts, columns+"INDEXED BY calls_status WHERE namespace = ?2 AND status = '"+safe(status)+"' AND status <> 'SUCCEEDED'"+beyond)
	}
	return strings.Join(parts, " UNION ALL ") + order, args, rest
}

// safe is a status that may stand in a statement; a foreign one selects nothing.
func safe(s call.Status) string {
	if !s.Valid() {
		return ""
	}
	return string(s)
}

// wanted reports whether a row is what the rest of a query asks for.
func wanted(q store.Query, st *sqlite.Stmt) bool {
	const tool = 8 // the first column after those of scanCall
	is := func(want string, col int) bool { return want == "" || want == st.ColumnText(col) }
	return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, call.Status(st.ColumnText(3)))) &&
		is(q.Namespace, 1) && is(q.Tool, tool) && is(q.Caller, tool+1) && is(q.Run, tool+2) && is(q.Thread, tool+3) &&
		is(q.ParentCall, tool+4) && is(q.Batch, tool+5) &&
		(q.CreatedAfter.IsZero() || st.ColumnInt64(tool+6) >= nanos(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || st.ColumnInt64(tool+6) < nanos(q.CreatedBefore))
}
