package lifecycle

import (
	"context"
	"fmt"
	"sync"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// questions counts the suspended calls of namespaces and principals, when they are limited.
type questions struct {
	namespace, principal int // of each; 0: any number

	mu   sync.Mutex
	open map[holder]int // those on their way to the journal, too
}

func (q *questions) limited() bool { return q.namespace > 0 || q.principal > 0 }

// load counts what the journal has.
func (q *questions) load(ctx context.Context, s store.Store) error {
	if !q.limited() {
		return nil
	}
	for query := (store.Query{Statuses: []call.Status{call.Suspended}, OldestFirst: true, Limit: 1000}); ; {
		page, err := s.Calls(ctx, query)
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

func (q *questions) add(c *call.Call, n int) {
	if !q.limited() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(c, n)
}

func (q *questions) addLocked(c *call.Call, n int) {
	if q.open == nil {
		q.open = map[holder]int{}
	}
	for _, k := range [...]holder{{namespace: c.Namespace}, {namespace: c.Namespace, principal: c.Caller.Subject}} {
		if q.open[k] += n; q.open[k] <= 0 {
			delete(q.open, k)
		}
	}
}

// reserve takes a place for a question, or says who has as many as may be. One about an attempt in doubt is always asked.
func (q *questions) reserve(c *call.Call, origin string) (full string) {
	if !q.limited() {
		return ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case origin == call.OriginDoubt:
	case q.namespace > 0 && q.open[holder{namespace: c.Namespace}] >= q.namespace:
		return fmt.Sprintf("%d calls of this namespace", q.namespace)
	case q.principal > 0 && q.open[holder{namespace: c.Namespace, principal: c.Caller.Subject}] >= q.principal:
		return fmt.Sprintf("%d calls of %s", q.principal, c.Caller.Subject)
	}
	q.addLocked(c, 1)
	return ""
}

// tooManyQuestions is the end of a call that has a question where too many are open.
func tooManyQuestions(full string, executed call.Executed) end {
	return end{status: call.Failed, executed: executed, after: true, result: failure(&tool.Error{
		Code: tool.ResourceExhausted, Reason: "TOO_MANY_QUESTIONS", Aborted: true, Retryable: true,
		Message: "Not asked: " + full + " wait for an answer already, as many as may. Try again when some of them are answered.",
	})}
}
