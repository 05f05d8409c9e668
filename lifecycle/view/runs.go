package view

import (
	"context"
	"errors"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// Run returns the state of a run. It returns the error "not found" for an unknown run.
func (r *Records) Run(ctx context.Context, p tool.Principal, id string) (*call.RunSummary, error) {
	r.cfg.Settle()
	run, err := r.state(ctx, p, id)
	if err == nil {
		run.Children, err = r.children(ctx, p, id)
	}
	return run, err
}

// Runs returns a page of runs, the run with the newest call first, and the position for the next page; zero means that there is no next
// page.
func (r *Records) Runs(ctx context.Context, p tool.Principal, q *call.RunQuery) (runs []*call.RunSummary, next int64, err error) {
	r.cfg.Settle()
	add := func(newest *call.Call) (bool, error) {
		run, err := r.state(ctx, p, newest.Run.ID)
		if err != nil || len(q.States) > 0 && !slices.Contains(q.States, run.State) {
			return false, unseen(err)
		}
		runs = append(runs, run)
		return true, nil
	}
	if q.ParentRun != "" {
		return runs, 0, r.childRuns(ctx, p, q, add)
	}
	base := call.Query{Namespace: p.Namespace, Thread: q.Thread, After: q.After}
	next, err = r.newest(ctx, p, q, base, func(q *call.Query, c *call.Call) string { q.Run = c.Run.ID; return c.Run.ID }, add)
	return runs, next, err
}

// childRuns invokes add with the newest call of each run that the run q.ParentRun started.
func (r *Records) childRuns(ctx context.Context, p tool.Principal, q *call.RunQuery, add func(newest *call.Call) (bool, error)) error {
	if _, err := r.cfg.Owners.See(ctx, p, tool.RunScope, q.ParentRun); err != nil {
		return err
	}
	children, err := r.children(ctx, p, q.ParentRun)
	if err != nil {
		return err
	}
	for _, child := range children {
		page, err := r.cfg.Store.Calls(ctx, call.Query{Namespace: p.Namespace, Run: child.ID, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Calls) == 1 && matches(q, page.Calls[0]) && (q.Thread == "" || page.Calls[0].Run.Thread == q.Thread) {
			if _, err := add(page.Calls[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Threads is like Runs, for threads.
func (r *Records) Threads(ctx context.Context, p tool.Principal, q *call.RunQuery) (threads []*call.ThreadSummary, next int64, err error) {
	r.cfg.Settle()
	next, err = r.newest(ctx, p, q, call.Query{Namespace: p.Namespace, After: q.After},
		func(q *call.Query, c *call.Call) string { q.Thread = c.Run.Thread; return c.Run.Thread },
		func(newest *call.Call) (bool, error) {
			t, err := r.thread(ctx, p, newest.Run.Thread)
			if err == nil {
				threads = append(threads, t)
			}
			return err == nil, unseen(err)
		})
	return threads, next, err
}

// Thread returns the state of a thread. It returns the error "not found" for an unknown thread.
func (r *Records) Thread(ctx context.Context, p tool.Principal, id string) (*call.ThreadSummary, error) {
	r.cfg.Settle()
	return r.thread(ctx, p, id)
}

func (r *Records) thread(ctx context.Context, p tool.Principal, id string) (*call.ThreadSummary, error) {
	owner, err := r.cfg.Owners.See(ctx, p, tool.ThreadScope, id)
	if err != nil {
		return nil, err
	}
	t := &call.ThreadSummary{ID: id, Owner: owner}
	_, t.Mode = r.cfg.Modes.Modes(p.Namespace, "", id)
	t.RunActivity, err = r.activity(ctx, p, call.Query{Namespace: p.Namespace, Thread: id}, true)
	return t, err
}

// unseen returns nil for the error "not found": a list leaves out what the principal may not see.
func unseen(err error) error {
	var refusal *call.Refusal
	if errors.As(err, &refusal) && refusal.Kind == call.NotFound {
		return nil
	}
	return err
}

const (
	runScan  = call.MaxScan // maximum number of calls that a page of runs or threads reads
	runChunk = 250          // calls that are read at once
)

// newest visits the newest call of each run or thread that meets the query, newest first, until visit has returned true q.Limit times or
// runScan calls were read. of returns the id of the call's run or thread, and restricts a query to it. next is the position after which the
// next page begins.
//
// No table stores runs in the order of their activity, because each new call would have to update it. The calls themselves are in this
// order.
func (r *Records) newest(ctx context.Context, p tool.Principal, q *call.RunQuery, base call.Query, of func(*call.Query, *call.Call) string, visit func(*call.Call) (bool, error)) (next int64, err error) {
	base.Caller = q.Caller
	if !SeesAll(p) {
		if q.Caller != "" && q.Caller != p.Subject {
			return 0, nil
		}
		base.Caller = p.Subject
	}
	if q.Waiting || len(q.States) == 1 && q.States[0] == call.RunWaiting {
		base.Statuses = []call.Status{call.Suspended}
	}
	base.Limit = runChunk
	seen, found := map[string]bool{"": true}, 0
	for read := 0; read < runScan; {
		page, err := r.cfg.Store.Calls(ctx, base)
		if err != nil {
			return 0, err
		}
		read += len(page.Calls) + len(page.Corrupt) + page.Skipped
		for i, c := range page.Calls {
			one := base
			id := of(&one, c)
			if seen[id] {
				continue
			}
			seen[id] = true
			first, err := r.isNewest(ctx, one, q.After)
			took := false
			if err == nil && first && matches(q, c) {
				took, err = visit(c)
			}
			if err != nil {
				return 0, err
			}
			if took {
				found++
			}
			switch {
			case found < q.Limit:
			case i == len(page.Calls)-1:
				return page.Next, nil // 0 at the end of the list
			default:
				return page.Positions[i], nil
			}
		}
		if base.After = page.Next; base.After == 0 {
			return 0, nil
		}
	}
	return base.After, nil
}

// isNewest reports whether no earlier page had a call of the run or thread that the query one selects. On the first page, it always returns
// true.
func (r *Records) isNewest(ctx context.Context, one call.Query, after int64) (bool, error) {
	if after == 0 {
		return true, nil
	}
	newer := ""
	one.OldestFirst, one.After, one.Limit = true, after-1, 1
	err := r.each(ctx, one, func(c *call.Call) bool { newer = c.ID; return false })
	return newer == "", err
}

// each invokes visit with the calls of a query until visit returns false. A page may be empty although more calls follow.
func (r *Records) each(ctx context.Context, q call.Query, visit func(*call.Call) bool) error {
	for {
		page, err := r.cfg.Store.Calls(ctx, q)
		if err != nil {
			return err
		}
		for _, c := range page.Calls {
			if !visit(c) {
				return nil
			}
		}
		if q.After = page.Next; q.After == 0 {
			return nil
		}
	}
}

// matches reports whether the newest call of a run or thread meets the conditions that no index covers.
func matches(q *call.RunQuery, c *call.Call) bool {
	labels := call.Query{Labels: q.Labels}
	return (q.Agent == "" || c.Run.Agent.ID == q.Agent) && (q.Caller == "" || c.Caller.Subject == q.Caller) && labels.Holds(c)
}

// activity returns when the oldest call that a query selects was created, the newest call, and the calls that wait.
func (r *Records) activity(ctx context.Context, p tool.Principal, q call.Query, waits bool) (a call.RunActivity, err error) {
	q.Limit = 1
	page, err := r.cfg.Store.Calls(ctx, q)
	if err != nil || len(page.Calls) == 0 {
		return a, err
	}
	a.Newest = page.Calls[0]
	q.OldestFirst = true
	if page, err = r.cfg.Store.Calls(ctx, q); err != nil {
		return a, err
	}
	a.First = a.Newest.Created // The journal stores read-only calls late. The call that it stored first may therefore be newer than a call that it stored later.
	if len(page.Calls) > 0 && page.Calls[0].Created.Before(a.First) {
		a.First = page.Calls[0].Created
	}
	if !waits {
		return a, nil
	}
	q.Statuses, q.Limit = []call.Status{call.Suspended}, call.MaxWaits
	seen := 0
	err = r.each(ctx, q, func(c *call.Call) bool {
		if Sees(p, c) && c.Open() != nil {
			a.Waits = append(a.Waits, Call(p, c))
		}
		seen++
		return seen < call.MaxWaits
	})
	return a, err
}

// mostParents is the number of calls of a run, counted from the newest, whose children are looked up.
const mostParents = 1000

// children returns the runs that calls of a run started, oldest first.
func (r *Records) children(ctx context.Context, p tool.Principal, run string) (children []call.ChildRun, err error) {
	parents, err := r.cfg.Store.Calls(ctx, call.Query{Namespace: p.Namespace, Run: run, Limit: mostParents})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, c := range slices.Backward(parents.Calls) {
		ids = append(ids, c.ID)
	}
	found, err := r.cfg.Store.Children(ctx, p.Namespace, ids)
	seen := map[string]bool{"": true, run: true}
	for _, c := range found {
		if seen[c.Run.ID] || !Sees(p, c) || len(children) == call.MaxChildren {
			continue
		}
		seen[c.Run.ID] = true
		children = append(children, call.ChildRun{ID: c.Run.ID, ParentCall: c.Run.ParentCall, Agent: c.Run.Agent.ID})
	}
	return children, err
}
