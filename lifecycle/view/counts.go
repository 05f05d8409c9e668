package view

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// maxCounted limits the calls of one status that Count checks one by one. It applies to a principal that does not see the whole namespace.
const maxCounted = 1000

// Count counts the calls that are not terminal and that List shows to the principal.
func (r *Records) Count(ctx context.Context, p tool.Principal) (call.Counts, error) {
	if SeesAll(p) {
		statuses, actions, err := r.cfg.Store.CountsOf(ctx, p.Namespace)
		return call.Counts{Statuses: statuses, Actions: actions}, err
	}
	counts := call.Counts{Statuses: map[call.Status]int{}, Actions: map[string]int{}}
	for _, status := range []call.Status{call.New, call.Running, call.Suspended, call.Resuming} {
		if err := r.count(ctx, p, status, &counts); err != nil {
			return call.Counts{}, err
		}
	}
	return counts, nil
}

// count adds the calls of one status.
func (r *Records) count(ctx context.Context, p tool.Principal, status call.Status, counts *call.Counts) error {
	const portion = 50
	q := call.Query{Statuses: []call.Status{status}, Limit: portion}
	for looked := 0; ; looked += portion {
		page, err := r.List(ctx, p, q)
		if err != nil {
			return err
		}
		for _, c := range page.Calls {
			if counts.Statuses[status]++; c.Open() != nil {
				counts.Actions[c.Open().Action]++
			}
		}
		if q.After = page.Next; q.After == 0 {
			return nil
		}
		if looked+portion >= maxCounted {
			counts.AtLeast = true
			return nil
		}
	}
}
