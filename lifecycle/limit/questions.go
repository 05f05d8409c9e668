package limit

import (
	"context"
	"fmt"
	"sync"

	"github.com/toold-dev/toold/call"
)

// Questions counts the suspended calls of each namespace and principal that has a limit.
type Questions struct {
	namespace, principal int // limit of each; 0 means no limit

	mu   sync.Mutex
	open map[scope]int // open questions, including those that are about to be stored
}

// A Journal reads the records of calls.
type Journal interface {
	Calls(ctx context.Context, q call.Query) (call.Page, error)
}

func (q *Questions) limited() bool { return q.namespace > 0 || q.principal > 0 }

// Load counts the open questions in the journal.
func (q *Questions) Load(ctx context.Context, j Journal) error {
	if !q.limited() {
		return nil
	}
	for query := (call.Query{Statuses: []call.Status{call.Suspended}, OldestFirst: true, Limit: 1000}); ; {
		page, err := j.Calls(ctx, query)
		if err != nil {
			return fmt.Errorf("count open questions: %w", err)
		}
		for _, c := range page.Calls {
			q.add(c, 1)
		}
		if query.After = page.Next; query.After == 0 {
			return nil
		}
	}
}

// Closed must be called when a question was closed, or was reserved but not stored.
func (q *Questions) Closed(c *call.Call) { q.add(c, -1) }

func (q *Questions) add(c *call.Call, n int) {
	if !q.limited() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(c, n)
}

func (q *Questions) addLocked(c *call.Call, n int) {
	if q.open == nil {
		q.open = map[scope]int{}
	}
	for _, k := range [...]scope{{namespace: c.Namespace}, {namespace: c.Namespace, principal: c.Caller.Subject}} {
		if q.open[k] += n; q.open[k] <= 0 {
			delete(q.open, k)
		}
	}
}

// Reserve counts a new question of a call. If a limit is reached, it counts nothing and returns the reason, such as "5 calls of alice".
// Questions about an attempt in doubt have no limit.
func (q *Questions) Reserve(c *call.Call, origin string) (full string) {
	if !q.limited() {
		return ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case origin == call.OriginDoubt:
	case q.namespace > 0 && q.open[scope{namespace: c.Namespace}] >= q.namespace:
		return fmt.Sprintf("%d calls of this namespace", q.namespace)
	case q.principal > 0 && q.open[scope{namespace: c.Namespace, principal: c.Caller.Subject}] >= q.principal:
		return fmt.Sprintf("%d calls of %s", q.principal, c.Caller.Subject)
	}
	q.addLocked(c, 1)
	return ""
}
