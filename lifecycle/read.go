package lifecycle

import (
	"context"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/tool"
)

// Get returns a call as it stands.
func (e *Engine) Get(ctx context.Context, p tool.Principal, id string) (*call.Call, error) {
	l, err := e.acquireVisible(ctx, p, id)
	if err != nil {
		return nil, err
	}
	defer l.release()
	return view.Call(p, l.snapshot()), nil
}

// List returns a page of calls. A principal without a role for others' calls gets its own; approvers get the questions
// that they may answer. A page may have fewer calls than the query's limit, because others were left out.
func (e *Engine) List(ctx context.Context, p tool.Principal, q call.Query) (call.Page, error) {
	e.settle()
	q.Namespace = p.Namespace
	all := p.HasRole("viewer") || p.HasRole("operator") || p.HasRole("approver") && len(q.Statuses) == 1 && q.Statuses[0] == call.Suspended
	if !all {
		q.Caller = p.Subject
	}
	page, err := e.store.Calls(ctx, q)
	page.Calls = slices.DeleteFunc(page.Calls, func(c *call.Call) bool { return !view.Sees(p, c) })
	if q.Caller != p.Subject && !view.SeesAll(p) {
		page.Corrupt = nil // nobody can tell whether the principal may see them
	}
	for i, c := range page.Calls {
		page.Calls[i] = view.Call(p, c)
	}
	return page, err
}
