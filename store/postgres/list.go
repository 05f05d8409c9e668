package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// Calls returns a page of calls.
func (s *Store) Calls(ctx context.Context, q store.Query) (page store.Page, err error) {
	limit := cmp.Or(q.Limit, 50)
	text, args := plan(q, limit+1)
	rows, err := s.callRows(ctx, text, args...)
	if err != nil {
		return page, err
	}
	if len(rows) > limit {
		rows = rows[:limit]
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

// conditions are what a statement's WHERE says, and its arguments.
type conditions struct {
	text []string
	args []any
}

// add adds a condition with %s where the argument stands.
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

// plan writes the statement for a query. Each of its words has an index that ends in the position, so that a page is read
// in its order; where several statuses are asked for, a page of each.
func plan(q store.Query, limit int) (text string, args []any) {
	order := " ORDER BY position DESC"
	if q.OldestFirst {
		order = " ORDER BY position"
	}
	order += fmt.Sprint(" LIMIT ", limit)
	c := filter(q)
	statuses := slices.DeleteFunc(slices.Clone(q.Statuses), func(s call.Status) bool { return !s.Valid() })
	switch {
	case len(q.Statuses) > 0 && len(statuses) == 0:
		c.text = append(c.text, "false")
	case q.Action != "":
		if text, args, ok := actionPlan(q, order); ok {
			return text, args
		}
		c.add("position IN (SELECT call FROM suspensions s WHERE s.open AND s.action = %s)", q.Action)
	case len(statuses) > 0 && !slices.Contains(statuses, call.Succeeded) && q.Run+q.Thread+q.ParentCall+q.Batch == "":
		return statusPlan(statuses, c, order)
	}
	if len(statuses) > 0 {
		c.add("status = ANY (%s::text[])", words(statuses))
	}
	return "SELECT " + callColumnList + " FROM calls" + c.where() + order, c.args
}

// words is text that [bind] leaves alone.
type words []call.Status

// statusPlan reads the page of each status from the index and takes the page of them all.
func statusPlan(statuses []call.Status, c conditions, order string) (text string, args []any) {
	var parts []string
	where := strings.Join(append(c.text, "status <> 'SUCCEEDED'"), " AND ")
	for _, s := range statuses {
		parts = append(parts, "(SELECT "+callColumnList+" FROM calls WHERE status = '"+string(s)+"' AND "+where+order+")")
	}
	return "SELECT * FROM (" + strings.Join(parts, " UNION ALL ") + ") calls" + order, c.args
}

// actionPlan reads the open questions of an action in the order of their calls; false when the query asks for more.
func actionPlan(q store.Query, order string) (text string, args []any, ok bool) {
	rest := q
	rest.Namespace, rest.After = "", 0
	if q.Namespace == "" || len(q.Statuses) > 0 || len(filter(rest).text) > 0 {
		return "", nil, false
	}
	var c conditions
	c.add("namespace = %s", q.Namespace)
	c.add("action = %s", q.Action)
	c.beyond(q, "call")
	inner := "SELECT call FROM suspensions" + c.where() + " AND open" + strings.Replace(order, "position", "call", 1)
	outer, _, _ := strings.Cut(order, " LIMIT ")
	return "SELECT " + callColumnList + " FROM (" + inner + ") w JOIN calls ON position = w.call" + outer, c.args, true
}

// beyond says where the page begins.
func (c *conditions) beyond(q store.Query, column string) {
	switch {
	case q.After == 0:
	case q.OldestFirst:
		c.add(column+" > %s", q.After)
	default:
		c.add(column+" < %s", q.After)
	}
}

// filter says what a query asks of each call, but for its status and action.
func filter(q store.Query) (c conditions) {
	c.beyond(q, "position")
	for _, w := range []struct{ column, value string }{
		{"namespace", q.Namespace}, {"caller", q.Caller}, {"run_id", q.Run}, {"thread_id", q.Thread}, {"parent_call", q.ParentCall},
		{"batch_id", q.Batch}, {"tool", q.Tool},
	} {
		if w.value != "" {
			c.add(w.column+" = %s", w.value)
		}
	}
	if !q.CreatedAfter.IsZero() {
		c.add("created >= %s", q.CreatedAfter.UnixNano())
	}
	if !q.CreatedBefore.IsZero() {
		c.add("created < %s", q.CreatedBefore.UnixNano())
	}
	return c
}
