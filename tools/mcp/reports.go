package mcp

import (
	"context"
	"sync"
	"time"
)

// reports makes an answer wait for the reports that the server sent before it. Otherwise the call could get the answer first, because the
// SDK handles each report in a separate goroutine. It counts the reports that have arrived, and those that were handled.
type reports struct {
	mu           sync.Mutex
	came, passed int64
	changed      chan struct{}
}

func newReports() *reports { return &reports{changed: make(chan struct{})} }

// isReport reports whether a message is a server's report about a call, such as progress.
func isReport(method string) bool {
	return method == "notifications/progress" || method == "notifications/message"
}

func (t *reports) arrive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.came++
}

// pass counts a report that was handled. Settle may have counted a late report already, so pass limits the count to the number of reports
// that have arrived. Without the limit, later answers would not wait for their reports.
func (t *reports) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed = min(t.passed+1, t.came)
	close(t.changed)
	t.changed = make(chan struct{})
}

// settleWithin is the maximum time that an answer waits for reports. A limit is needed because the SDK drops reports that it cannot parse.
const settleWithin = time.Second

// settle waits until all reports that have arrived so far were handled.
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
			t.passed = max(t.passed, want) // Missing reports count as handled, so that later calls do not wait for them.
			t.mu.Unlock()
			return
		}
	}
}
