package mcp

import (
	"context"
	"sync"
	"time"
)

// A told counts the reports of a server about its calls: received and passed on. The SDK passes it on in a goroutine of its own,
// and an answer that comes behind it would overtake it.
type told struct {
	mu           sync.Mutex
	came, passed int64
	changed      chan struct{}
}

func newTold() *told { return &told{changed: make(chan struct{})} }

// tells reports whether a message is a report about a call.
func tells(method string) bool {
	return method == "notifications/progress" || method == "notifications/message"
}

// arrive counts what came.
func (t *told) arrive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.came++
}

// pass counts what was passed on. What nobody waited for any more was counted before: never more than came, or later answers would
// not wait.
func (t *told) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed = min(t.passed+1, t.came)
	close(t.changed)
	t.changed = make(chan struct{})
}

// tellWithin bounds the wait for what an answer has overtaken. The SDK drops what it cannot read.
const tellWithin = time.Second

// settle waits until all that has come was passed on.
func (t *told) settle(ctx context.Context) {
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
			timer := time.NewTimer(tellWithin)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-late:
			t.mu.Lock()
			t.passed = max(t.passed, want) // no later call waits for it
			t.mu.Unlock()
			return
		}
	}
}
