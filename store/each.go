package store

import (
	"context"

	"github.com/toold-dev/toold/call"
)

// A Lister lists calls. Every [Store] is a Lister.
type Lister interface {
	Calls(ctx context.Context, q call.Query) (call.Page, error)
}

// EachUnfinished visits the unfinished calls that a query selects, page by page, oldest first. It returns the first error of visit or of
// the list.
func EachUnfinished(ctx context.Context, s Lister, q call.Query, visit func([]*call.Call) error) error {
	q.Statuses = call.Unfinished()
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
