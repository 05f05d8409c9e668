package drain_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/lifecycle/drain"
)

// TestDrain takes random steps and checks three rules. Nothing is admitted after Refuse. The idle channel closes exactly when no work is
// active after Refuse. Only the first failure is kept.
func TestDrain(t *testing.T) {
	isClosed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := drain.New()
		var idle <-chan struct{}
		running, refused, stopped, closed, wasIdle := 0, false, false, false, false
		var failed error
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(*rapid.T) { d.Enter(); running++ },
			"admit": func(t *rapid.T) {
				admitted := d.Admit()
				if admitted == refused {
					t.Fatalf("admitted %t, refused %t", admitted, refused)
				}
				if admitted {
					running++
				}
			},
			"leave": func(t *rapid.T) {
				if running == 0 {
					t.Skip()
				}
				d.Leave()
				running--
			},
			"refuse": func(*rapid.T) { idle, refused = d.Refuse(), true },
			"stop":   func(*rapid.T) { d.Stop(); stopped = true },
			"close":  func(*rapid.T) { d.Close(); closed = true },
			"fail": func(t *rapid.T) {
				err := errors.New("disk")
				if first := d.Fail(err); first != (failed == nil) {
					t.Fatalf("first %t after %v", first, failed)
				} else if first {
					failed = err
				}
			},
			"": func(t *rapid.T) {
				wasIdle = wasIdle || refused && running == 0
				if idle != nil && isClosed(idle) != wasIdle {
					t.Fatalf("idle %t, want %t", isClosed(idle), wasIdle)
				}
				if d.Refusing() != refused || d.Stopped() != stopped || isClosed(d.Over()) != stopped || d.Closing() != closed || isClosed(d.Closed()) != closed {
					t.Fatalf("refusing %t, stopped %t, closing %t", d.Refusing(), d.Stopped(), d.Closing())
				}
				if d.Err() != failed || d.Ending() != (stopped || failed != nil) {
					t.Fatalf("failed with %v, ending %t", d.Err(), d.Ending())
				}
			},
		})
	})
}
