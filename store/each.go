package store

import (
	"context"

	"github.com/toold-dev/toold/call"
)

// A Lister lists calls; every [Store] is one.
type Lister interface {
	Calls(ctx context.Context, q call.Query) (call.Page, error)
}

// EachUnfinished visits the calls that a query selects and that have not ended, oldest first and one page after the other. An error of
// visit ends it.
func EachUnfinished(ctx context.Context, s Lister, q call.Query, visit func([]*call.Call) error) error {
	q.Statuses = []call.Status{call.New, call.Running, call.Suspended, call.Resuming}
	q.Limit, q.OldestFirst = 500, true
	for {
		page, err := s.Calls(ctx, q)
		if err == nil {
			err = visit(page.Calls)
		}
		if q.After = page.Next; err != nil || q.After == 0 {
			return err
		}
	}
}
