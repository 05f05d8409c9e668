package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// Calls returns a page of calls.
func (s *Store) Calls(ctx context.Context, q call.Query) (page call.Page, err error) {
	finder := rows.NewFinder(&q)
	for n := cmp.Or(q.Limit, 50) + 1; ; n = min(4*n, call.MaxScan) { // Each statement reads n calls. When few of them match, the next statement reads more.
		text, args := plan(q, n)
		before, read := *finder, 0
		err := s.Query(ctx, text, func() { *finder, read = before, 0 }, func(r rows.Row) error {
			read++
			q.After = r.Int(0)
			if r.Null(recordColumn) {
				return finder.Skip(q.After)
			}
			return finder.Take(rows.ReadCall(r))
		}, args...)
		if err != nil {
			return page, err
		}
		if finder.Full() || read < n {
			return finder.Page(), nil
		}
	}
}

const selectChildren = "SELECT " + rows.CallColumns + ` FROM (SELECT min(position) AS position FROM (SELECT c.position, c.run_id FROM unnest($2::bytea[]) AS p (id)
	CROSS JOIN LATERAL (SELECT position, run_id FROM calls WHERE namespace = $1 AND parent_call = p.id ORDER BY position DESC LIMIT $3) c LIMIT $4) c GROUP BY run_id) f
	JOIN calls USING (position)`

// Children returns one call of each run that a parent started.
func (s *Store) Children(ctx context.Context, namespace string, parents []string) ([]*call.Call, error) {
	found, err := s.FindCalls(ctx, selectChildren, namespace, parents, call.MaxChildren, store.MaxSeeks)
	return rows.Sorted(found), err
}

// recordColumn is the column of the record in rows.CallColumns, which is the last one.
const recordColumn = 7

// conditions holds the WHERE clause of a statement and its arguments.
type conditions struct {
	text []string
	args []any
}

// add adds a condition. %s in text stands for the argument.
func (c *conditions) add(text string, arg any) {
	c.args = append(c.args, arg)
	c.text = append(c.text, fmt.Sprintf(text, fmt.Sprint("$", len(c.args))))
}

func (c *conditions) where() string {
	if len(c.text) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.text, " AND ")
}

// plan returns the statement for a query. The statement reads at most limit calls, in list order from one index, and returns a row for
// each. The row has no record when the call fails a condition outside this index.
func plan(q call.Query, limit int) (text string, args []any) {
	order := " ORDER BY position DESC"
	if q.OldestFirst {
		order = " ORDER BY position"
	}
	most := fmt.Sprint(" LIMIT ", limit)
	var c conditions
	var from string
	switch narrow := narrowest(&q); {
	case q.Action != "":
		c.add("action = %s AND open", q.Action)
		q.Action = ""
		c.in(&q, "call")
		from = "SELECT call AS position FROM suspensions" + c.where() + order + most
	case q.Batch+q.ParentCall == "" && q.WaitsInThread():
		c.add("thread_id = %s AND status = 'SUSPENDED'", q.Thread)
		q.Thread, q.Statuses = "", nil
		c.in(&q, "position")
		from = "SELECT position FROM statuses" + c.where() + order + most
	case q.Batch+q.ParentCall+q.Run+q.Thread == "" && len(q.Statuses) > 0 && !slices.Contains(q.Statuses, call.Succeeded):
		from = c.byStatus(&q, order+most)
	default:
		if narrow != nil {
			c.add(narrow.column+" = %s", *narrow.value)
			*narrow.value = ""
		}
		c.in(&q, "calls.position")
		where := c.where()
		return "SELECT " + c.columns(q) + " FROM calls" + where + order + most, c.args
	}
	return "SELECT " + c.columns(q) + " FROM (" + from + ") p JOIN calls USING (position)" + order, c.args
}

// in adds the conditions on namespace and position. column is the position.
func (c *conditions) in(q *call.Query, column string) {
	if q.Namespace != "" {
		c.add("namespace = %s", q.Namespace)
		q.Namespace = ""
	}
	switch {
	case q.After == 0:
	case q.OldestFirst:
		c.add(column+" > %s", q.After)
	default:
		c.add(column+" < %s", q.After)
	}
}

// byStatus returns a statement for the positions of the calls with the statuses of a query. It reads a page for each status and merges them.
func (c *conditions) byStatus(q *call.Query, order string) string {
	if q.Namespace == "" { // The index begins with status and namespace, so this statement must sort all positions.
		c.add("status = ANY (%s::text[])", words(q.Statuses))
		q.Statuses = nil
		c.in(q, "position")
		return "SELECT position FROM statuses" + c.where() + order
	}
	c.in(q, "position")
	var parts []string
	for _, s := range slices.Compact(slices.Sorted(slices.Values(q.Statuses))) {
		if s.Valid() {
			parts = append(parts, "(SELECT position FROM statuses"+c.where()+" AND status = '"+string(s)+"'"+order+")")
		}
	}
	if q.Statuses = nil; len(parts) == 0 {
		return "SELECT position FROM statuses" + c.where() + " AND false"
	}
	return "SELECT position FROM (" + strings.Join(parts, " UNION ALL ") + ") s" + order
}

// columns returns rows.CallColumns with a record only for the calls that meet the conditions of a query.
func (c *conditions) columns(q call.Query) string {
	c.text = nil
	c.filter(q)
	if len(c.text) == 0 {
		return rows.CallColumns
	}
	return strings.TrimSuffix(rows.CallColumns, "record") + "CASE WHEN " + strings.Join(c.text, " AND ") + " THEN record END"
}

// A member is a field of a query and the column of calls that has an index for it.
type member struct {
	column string
	value  *string
}

// members returns the members of a query. The member that selects the fewest calls comes first.
func members(q *call.Query) []member {
	return []member{{"batch_id", &q.Batch}, {"parent_call", &q.ParentCall}, {"run_id", &q.Run}, {"thread_id", &q.Thread}, {"caller", &q.Caller}}
}

// narrowest returns the field of a query that selects the fewest calls, or nil.
func narrowest(q *call.Query) *member {
	for _, m := range members(q) {
		if *m.value != "" {
			return &m
		}
	}
	return nil
}

// words is bound as text: [bind] does not convert it.
type words []call.Status

// filter adds the conditions of a query, except the condition on the position.
func (c *conditions) filter(q call.Query) {
	if q.Namespace != "" {
		c.add("calls.namespace = %s", q.Namespace)
	}
	for _, m := range members(&q) {
		if *m.value != "" {
			c.add(m.column+" = %s", *m.value)
		}
	}
	if len(q.Statuses) > 0 {
		c.add("calls.status = ANY (%s::text[])", words(q.Statuses))
	}
	if len(q.Tools) > 0 {
		c.add("tool = ANY (%s::bytea[])", q.Tools)
	}
	if !q.CreatedAfter.IsZero() {
		c.add("created >= %s", q.CreatedAfter.UnixNano())
	}
	if !q.CreatedBefore.IsZero() {
		c.add("created < %s", q.CreatedBefore.UnixNano())
	}
}
