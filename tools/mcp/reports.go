package mcp

import (
	"context"
	"sync"
	"time"
)

// reports counts the reports of a server about its calls: how many came, and how many were passed on. The SDK passes a report on in a
// separate goroutine, so a later answer could overtake it.
type reports struct {
	mu           sync.Mutex
	came, passed int64
	changed      chan struct{}
}

func newReports() *reports { return &reports{changed: make(chan struct{})} }

// isReport reports whether a message is a report about a call.
func isReport(method string) bool {
	return method == "notifications/progress" || method == "notifications/message"
}

// arrive counts a report that came.
func (t *reports) arrive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.came++
}

// pass counts a report that was passed on. The count never exceeds the reports that came, because settle may have counted late reports
// already. Without this limit, later answers would not wait for their reports.
func (t *reports) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed = min(t.passed+1, t.came)
	close(t.changed)
	t.changed = make(chan struct{})
}

// settleWithin is the longest wait for reports that an answer overtook. The SDK drops reports that it cannot parse.
const settleWithin = time.Second

// settle waits until all reports that came so far were passed on.
func (t *reports) settle(ctx context.Context) {
	t.mu.Lock()
	want := t.came
	t.mu.Unlock()
	var late <-chan time.Time
	for {
		t.mu.Lock()
		left, changed := want-t.passed, t.changed
		t.mu.Unlock()
		if left <= 0 {
			return
		}
		if late == nil {
			timer := time.NewTimer(settleWithin)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-late:
			t.mu.Lock()
			t.passed = max(t.passed, want) // Later calls need not wait for these reports.
			t.mu.Unlock()
			return
		}
	}
}
