package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/rows"
)

// Calls returns a page of calls.
func (s *Store) Calls(ctx context.Context, q call.Query) (page call.Page, err error) {
	finder := rows.NewFinder(&q)
	for n := cmp.Or(q.Limit, 50) + 1; ; n = min(4*n, call.MaxScan) { // A query that needs records may have to read several portions.
		text, args := plan(q, n)
		before, read := *finder, 0
		err := s.Query(ctx, text, func() { *finder, read = before, 0 }, func(r rows.Row) error {
			read++
			c := rows.ReadCall(r)
			q.After = c.Position
			return finder.Take(c)
		}, args...)
		if err != nil {
			return page, err
		}
		if finder.Full() || read < n {
			return finder.Page(), nil
		}
	}
}

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

// of adds the conditions on position and namespace, for the columns of table.
func (c *conditions) of(table string, q call.Query) {
	c.beyond(q, table+".position")
	if q.Namespace != "" {
		c.add(table+".namespace = %s", q.Namespace)
	}
}

// plan returns the statement for a query. For each field that a query can name, there is an index whose last column is the position. A page
// can therefore be read in list order. With several statuses, the statement reads a page for each status.
func plan(q call.Query, limit int) (text string, args []any) {
	order := " ORDER BY position DESC"
	if q.OldestFirst {
		order = " ORDER BY position"
	}
	order += fmt.Sprint(" LIMIT ", limit)
	var c conditions
	c.of("calls", q)
	c.filter(q)
	statuses := slices.DeleteFunc(slices.Clone(q.Statuses), func(s call.Status) bool { return !s.Valid() })
	switch {
	case len(q.Statuses) > 0 && len(statuses) == 0:
		c.text = append(c.text, "false")
	case q.Action != "":
		if text, args, ok := actionPlan(q, order); ok {
			return text, args
		}
		c.add("calls.position IN (SELECT call FROM suspensions s WHERE s.open AND s.action = %s)", q.Action)
	case len(statuses) > 0 && !slices.Contains(statuses, call.Succeeded) && q.Run+q.Thread+q.ParentCall+q.Batch == "":
		return statusPlan(q, statuses, order)
	}
	if len(statuses) > 0 {
		c.add("calls.status = ANY (%s::text[])", words(statuses))
	}
	return "SELECT " + rows.CallColumns + " FROM calls" + c.where() + order, c.args
}

// words is bound as text: [bind] does not convert it.
type words []call.Status

// statusPlan reads the calls of each status in index order until the page of that status is full. Then it merges these pages into one.
func statusPlan(q call.Query, statuses []call.Status, order string) (text string, args []any) {
	c := conditions{text: []string{"calls.position = statuses.position"}}
	if c.filter(q); q.Namespace == "" && len(c.args) == 0 { // The index orders by namespace, so sort all positions before any call is looked up.
		var of conditions
		of.add("status = ANY (%s::text[])", words(statuses))
		of.beyond(q, "position")
		return "SELECT " + rows.CallColumns + " FROM calls WHERE position IN (SELECT position FROM statuses" + of.where() + order + ")" + order, of.args
	}
	look := "SELECT c.* FROM statuses CROSS JOIN LATERAL (SELECT " + rows.CallColumns + " FROM calls" + c.where() + " OFFSET 0) c"
	c.text = nil
	c.of("statuses", q)
	var parts []string
	for _, s := range slices.Compact(slices.Sorted(slices.Values(statuses))) {
		of := conditions{text: append(slices.Clone(c.text), "statuses.status = '"+string(s)+"'")}
		parts = append(parts, "("+look+of.where()+strings.Replace(order, "position", "statuses.position", 1)+")")
	}
	return "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + ") calls" + order, c.args
}

// actionPlan returns a statement that reads the open suspensions of an action in the order of their calls. ok is false when the query has
// other conditions as well.
func actionPlan(q call.Query, order string) (text string, args []any, ok bool) {
	var c conditions
	if c.filter(q); q.Namespace == "" || len(q.Statuses) > 0 || len(c.text) > 0 {
		return "", nil, false
	}
	c.add("namespace = %s", q.Namespace)
	c.add("action = %s", q.Action)
	c.beyond(q, "call")
	inner := "SELECT call FROM suspensions" + c.where() + " AND open" + strings.Replace(order, "position", "call", 1)
	outer, _, _ := strings.Cut(order, " LIMIT ")
	return "SELECT " + rows.CallColumns + " FROM (" + inner + ") w JOIN calls ON position = w.call" + outer, c.args, true
}

// beyond adds the condition on where the page begins.
func (c *conditions) beyond(q call.Query, column string) {
	switch {
	case q.After == 0:
	case q.OldestFirst:
		c.add(column+" > %s", q.After)
	default:
		c.add(column+" < %s", q.After)
	}
}

// filter adds the conditions of a query except namespace, position, status and action.
func (c *conditions) filter(q call.Query) {
	for _, w := range []struct{ column, value string }{
		{"caller", q.Caller}, {"run_id", q.Run}, {"thread_id", q.Thread}, {"parent_call", q.ParentCall},
		{"batch_id", q.Batch},
	} {
		if w.value != "" {
			c.add(w.column+" = %s", w.value)
		}
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
