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
	if s.nobodyIn(q) {
		return page, cmp.Or(s.refusal(), ctx.Err())
	}
	limit := cmp.Or(q.Limit, 50)
	text, args, rest := plan(q)
	var rows []callRow
	scanner := callScanner{shelf: &s.shelf}
	full := false
	for after := q.After; ; {
		more := false
		began := time.Now()
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, text, func(st *sqlite.Stmt) error {
				after = st.ColumnInt64(0)
				if wanted(rest, st) {
					if full = len(rows) == limit; full {
						return errEnough
					}
					rows = append(rows, scanner.scan(st))
				}
				if more = time.Since(began) > snapshotTime; more {
					return errEnough
				}
				return nil
			}, append([]any{from(q, after)}, args...)...)
		})
		if err != nil {
			return page, err
		}
		if full || !more {
			break
		}
	}
	if full {
		page.Next = rows[limit-1].position
	}
	page.Calls = make([]*call.Call, 0, len(rows))
	for _, r := range rows {
		if r.err != nil {
			page.Corrupt = append(page.Corrupt, r.key)
			continue
		}
		page.Calls = append(page.Calls, r.call)
	}
	return page, nil
}

// nobodyIn reports that the run or thread of a query has no calls, for certain: each new one is asked for.
func (s *Store) nobodyIn(q store.Query) bool {
	return q.Namespace != "" && (q.Run != "" && s.ids.excludes(member{q.Namespace, inRun, q.Run}) ||
		q.Thread != "" && s.ids.excludes(member{q.Namespace, inThread, q.Thread}))
}

// from is the position that a page begins beyond.
func from(q store.Query, after int64) int64 {
	if after == 0 && !q.OldestFirst {
		return 1<<63 - 1
	}
	return after
}

// selects is how a statement begins: columns that wanted does not look at are not read.
func selects(rest store.Query) string {
	if !filters(rest) {
		return "SELECT " + callColumns + " FROM "
	}
	return "SELECT " + callColumns + ", tool, caller, run_id, thread_id, parent_call, batch_id, created FROM "
}

// plan chooses the index for a query: the narrowest that its words allow. The statement's first parameter is the
// position that the page begins beyond. rest is what the index does not know and wanted must look at.
func plan(q store.Query) (text string, args []any, rest store.Query) {
	rest = q
	beyond, order := " AND position < ?1", " ORDER BY position DESC"
	if q.OldestFirst {
		beyond, order = " AND position > ?1", " ORDER BY position"
	}
	if q.Namespace == "" {
		if q.Action != "" {
			return selects(rest) + "calls WHERE position IN (SELECT call FROM suspensions INDEXED BY suspensions_open WHERE open = 1 AND action = ?2)" + beyond + order, []any{q.Action}, rest
		}
		return selects(rest) + "calls WHERE TRUE" + beyond + order, nil, rest
	}
	args, rest.Namespace = []any{q.Namespace}, ""
	narrow := func(index, column string, id *string) (string, []any, store.Query) {
		args, *id = append(args, *id), ""
		return selects(rest) + "calls INDEXED BY " + index + " WHERE namespace = ?2 AND " + column + " = ?3" + beyond + order, args, rest
	}
	membersOf := func(kind, column string, id *string) (string, []any, store.Query) {
		name, also := *id, " AND calls.namespace = ?2" // no bit is believed that the row does not bear out
		if *id = ""; column != "" {
			also += " AND calls." + column + " = ?3"
		}
		blocks, order := " AND m.block <= ?1 / 64", " ORDER BY m.block DESC, n DESC"
		if q.OldestFirst {
			blocks, order = " AND m.block >= ?1 / 64", " ORDER BY m.block, n"
		}
		return selects(rest) + membersOf + " CROSS JOIN calls ON position = " + memberAt +
			" WHERE m.namespace = ?2 AND m.kind = '" + kind + "' AND m.name = ?3" + memberBits + blocks + beyond + also + order, append(args, name), rest
	}
	switch {
	case q.Batch != "":
		return narrow("calls_batch", "batch_id", &rest.Batch)
	case q.ParentCall != "":
		return narrow("calls_parent", "parent_call", &rest.ParentCall)
	case q.Run != "":
		return membersOf(inRun, "run_id", &rest.Run)
	case q.Thread != "":
		return membersOf(inThread, "thread_id", &rest.Thread)
	case q.Action != "":
		if beyond, order = " AND call < ?1", " ORDER BY call DESC"; q.OldestFirst {
			beyond, order = " AND call > ?1", " ORDER BY call"
		}
		return selects(rest) + "suspensions INDEXED BY suspensions_open CROSS JOIN calls ON position = call" +
			" WHERE suspensions.namespace = ?2 AND open = 1 AND action = ?3" + beyond + order, append(args, q.Action), rest
	}
	if len(q.Statuses) == 0 || slices.Contains(q.Statuses, call.Succeeded) {
		if q.Caller != "" {
			return membersOf(ofCaller, "caller", &rest.Caller)
		}
		return membersOf(inNamespace, "", &rest.Namespace)
	}
	rest.Statuses = nil
	var parts []string
	for _, status := range q.Statuses { // each in its order: SQLite merges them
		parts = append(parts, selects(rest)+"calls INDEXED BY calls_status WHERE namespace = ?2 AND status = '"+safe(status)+"' AND status <> 'SUCCEEDED'"+beyond)
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

// filters reports whether anything is left for wanted to look at.
func filters(q store.Query) bool {
	return len(q.Statuses) > 0 || q.Namespace+q.Tool+q.Caller+q.Run+q.Thread+q.ParentCall+q.Batch != "" || !q.CreatedAfter.IsZero() || !q.CreatedBefore.IsZero()
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
