package lifecycle_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// TestOperationStopComesFirst checks that the operation is stopped before the end of its call is published. If the daemon crashes in
// between, the next daemon stops the operation again.
func TestOperationStopComesFirst(t *testing.T) {
	started := tool.Continues(tool.Operation{ID: "op", PollAfter: time.Minute}, "")
	for _, tt := range []struct {
		name   string
		end    func(w *world, id string) // how the call ends; nil: it is cancelled while the tool starts
		status call.Status
		stops  []string // expected stops when the daemon crashes during the first stop
	}{
		{"cancel", func(w *world, id string) { _, _ = w.e.Cancel(context.Background(), alice, id, "", 0) }, call.Cancelled, []string{"op", "op"}},
		{"expiry", func(*world, string) { time.Sleep(25 * time.Hour) }, call.Failed, []string{"op", "op"}},
		{"cancel while it starts", nil, call.Cancelled, []string{"op"}},
	} {
		for _, crash := range []bool{false, true} {
			r := &render{}
			operating(t, r, func(t *testing.T, w *world, poll func()) {
				s := spec("render", "{}")
				if tt.end == nil {
					r.start = func(*tool.Call) *tool.Result {
						_, _ = w.e.Cancel(context.Background(), alice, s.ID, "", 0)
						return started
					}
				}
				var once sync.Once
				r.stop = func(*tool.Call) {
					once.Do(func() {
						if c := w.stored(s.ID); c.Status != call.Running {
							t.Errorf("%s: stopped when the call was %s", tt.name, c.Status)
						}
						if crash {
							w.store = w.store.Crash()
						}
					})
				}
				if tt.end == nil {
					w.start(s, call.ExecuteOptions{}).Close()
				} else {
					w.park(s)
					defer w.start(s, call.ExecuteOptions{}).Close() // The watcher keeps the call in memory when the journal has failed.
					tt.end(w, s.ID)
				}
				synctest.Wait()
				want := tt.stops
				if crash {
					w.past = append(w.past, w.e)
					drain(w.e)
					w.open()
					poll()
					time.Sleep(25 * time.Hour)
				} else {
					want = want[:1]
				}
				if c := w.stored(s.ID); c.Status != tt.status || !slices.Equal(r.stopped, want) {
					t.Errorf("%s, crash %t: %s, stopped %v", tt.name, crash, c.Status, r.stopped)
				}
			})
		}
	}
}

// TestOperationThatCannotBeFollowed checks a tool that describes an operation in a form that toold cannot follow. toold stops the operation.
func TestOperationThatCannotBeFollowed(t *testing.T) {
	for name, answer := range map[string]*tool.Result{
		"no name":  tool.Continues(tool.Operation{PollAfter: time.Second}, ""),
		"question": {Status: tool.StatusPending, Suspension: &tool.Ticket{ExpiresIn: -1}},
	} {
		r := &render{poll: func(context.Context, *tool.Call) (*tool.Result, error) { return answer, nil }}
		operating(t, r, func(t *testing.T, w *world, _ func()) {
			s := spec("render", "{}")
			w.park(s)
			time.Sleep(2 * time.Minute)
			if c := w.stored(s.ID); c.Status != call.Failed || !slices.Equal(r.stopped, []string{"op"}) {
				t.Errorf("%s: %s, stopped %v", name, c.Status, r.stopped)
			}
		})
	}
}
