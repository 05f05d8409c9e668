package lifecycle_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// titled returns a tool that counts how often its calls were described, and puts the number into the description.
func titled(id string, e tool.Effects, described *atomic.Int32) *whole {
	return &whole{d: tool.Descriptor{ID: id, Effects: e, Parameters: json.RawMessage(anyObject)}, describe: func(context.Context, *tool.Call) (tool.Description, error) {
		n := described.Add(1)
		return tool.Description{
			Kind: tool.KindSearch, Title: "look " + strconv.Itoa(int(n)), Basis: "b", Notes: []string{"n"},
			Locations: []tool.Location{{Path: "p"}}, Preview: []tool.Content{{Type: tool.ContentText, Text: "looked up"}},
		}, nil
	}}
}

// begins returns the content of the accepted event, which must be the first event of the log.
func begins(t *testing.T, list []call.Event) call.Accepted {
	t.Helper()
	if len(list) == 0 || list[0].Accepted == nil || list[0].Sequence != 1 {
		t.Fatalf("the log begins with %+v", list)
	}
	return *list[0].Accepted
}

// TestAcceptedReportsWhatACallWouldDo checks that the first event of a call describes its effects. The event must be the same for the first
// watcher, for a later watcher and after a crash. It does not contain data that the tool looked up; only the record has this data.
func TestAcceptedReportsWhatACallWouldDo(t *testing.T) {
	for _, effects := range []tool.Effects{reading, mutating} {
		described := &atomic.Int32{}
		looks := titled("t", effects, described)
		looks.assess = func(tool.Arguments) tool.Effects {
			milder := effects.Normal()
			milder.OpenWorld = true
			return milder
		}
		inBubble(t, []tool.Tool{looks}, nil, func(t *testing.T, w *world) {
			s := spec("t", `{}`)
			list, _ := events(t, w.start(s, call.ExecuteOptions{}))
			got, want := begins(t, list), call.AcceptedAs(w.get(s.ID))
			if !reflect.DeepEqual(got, want) || got.Kind != tool.KindSearch || got.Title != "look 1" || !got.Assessment.OpenWorld {
				t.Errorf("accepted %+v, the record says %+v", got, want)
			}
			if types(t, 1, list) != "accepted attempt_started finished" {
				t.Errorf("events %s", types(t, 1, list))
			}
			time.Sleep(time.Second) // Wait until the event is written.
			w.crash()
			if later := begins(t, w.checkLog(s.ID)); !reflect.DeepEqual(later, got) {
				t.Errorf("after a crash %+v, was %+v", later, got)
			}
		})
	}
}

// TestAcceptedOfRefusedCalls checks the accepted event of calls that end early. The event contains no description when the call ends before
// its tool has described it.
func TestAcceptedOfRefusedCalls(t *testing.T) {
	described := &atomic.Int32{}
	looks, unheld := titled("t", reading, described), titled("isolated", reading, described)
	looks.d.Parameters = json.RawMessage(`{"type":"object","required":["a"]}`)
	unheld.d.RequiredIsolation = tool.IsolationFull
	inBubble(t, []tool.Tool{looks, unheld}, nil, func(t *testing.T, w *world) {
		for id, kind := range map[string]tool.Kind{"t": "", "absent": "", "isolated": tool.KindSearch} {
			c := w.do(spec(id, `{}`))
			if a := begins(t, w.checkLog(c.ID)); c.Status != call.Failed || a.Kind != kind || a.Assessment.IsZero() != (kind == "") {
				t.Errorf("%s: %s, accepted %+v", id, c.Status, a)
			}
		}
	})
}

// TestAcceptedWaitsForTheDescription checks a tool that hangs while it describes a call. The first event waits for the description until
// its deadline. No other event comes first. A cancellation during the wait publishes the accepted event.
func TestAcceptedWaitsForTheDescription(t *testing.T) {
	for _, effects := range []tool.Effects{reading, mutating} {
		for _, cancels := range []bool{false, true} {
			never := make(chan struct{})
			hangs := titled("t", effects, &atomic.Int32{})
			hangs.describe = func(context.Context, *tool.Call) (tool.Description, error) {
				<-never
				return tool.Description{}, nil
			}
			inBubble(t, []tool.Tool{hangs}, func(*lifecycle.Config) { never = make(chan struct{}) }, func(t *testing.T, w *world) {
				defer close(never)
				s, began := spec("t", `{}`), time.Now()
				watcher := w.start(s, call.ExecuteOptions{})
				time.Sleep(100 * time.Millisecond)
				if c := w.get(s.ID); c.LastSequence != 0 || c.Revision != 0 || c.Status != call.New {
					t.Errorf("before it is described the call is %s, revision %d, at event %d", c.Status, c.Revision, c.LastSequence)
				}
				if cancels {
					if _, err := w.e.Cancel(t.Context(), alice, s.ID, "", 0); err != nil {
						t.Fatal(err)
					}
				}
				list, _ := events(t, watcher)
				a, got := begins(t, list), types(t, 1, list)
				switch {
				case cancels && (got != "accepted cancel_requested finished" || a.Kind != ""):
					t.Errorf("cancelled: %s, accepted %+v", got, a)
				case !cancels && (got != "accepted attempt_started finished" || !a.Degraded || a.Kind == "" || time.Since(began) != 200*time.Millisecond):
					t.Errorf("after %v: %s, accepted %+v", time.Since(began), got, a)
				}
				w.checkLog(s.ID)
			})
		}
	}
}

// TestP4CrashBeforeTheDescription checks promises P3 and P4 for a crash between the acceptance of a batch and the description of a call:
// the call runs once, and its log begins with its description.
func TestP4CrashBeforeTheDescription(t *testing.T) {
	for _, while := range []bool{false, true} { // false: the crash comes while the call waits for its turn; true: it comes during the description
		described := &atomic.Int32{}
		looks, release := titled("t", mutating, described), make(chan struct{})
		asks := asks("asks", tool.Ticket{})
		first := of("asks", "t")
		if while {
			first = of("t")
			next := looks.describe
			looks.describe = func(ctx context.Context, c *tool.Call) (tool.Description, error) {
				<-release
				return next(ctx, c)
			}
		}
		var runs atomic.Int32
		looks.execute = func(context.Context, *tool.Call) (*tool.Result, error) { runs.Add(1); return tool.Text("ran"), nil }
		inBubble(t, []tool.Tool{asks, looks}, func(*lifecycle.Config) { release = make(chan struct{}) }, func(t *testing.T, w *world) {
			b := batchOf(call.Sequential, first...)
			w.launch(b)
			id := first[len(first)-1].ID
			if c := w.get(id); c.Status != call.New || c.Revision != 1 || c.LastSequence != 0 {
				t.Errorf("before its turn the call is %s, revision %d, at event %d", c.Status, c.Revision, c.LastSequence)
			}
			watcher, err := w.e.Watch(t.Context(), alice, id, "c1.1.0", false)
			if err != nil {
				t.Fatal(err)
			}
			if list, _ := events(t, watcher); len(list) != 0 {
				t.Errorf("before its turn the log has %+v", list)
			}
			w.kill()
			close(release)
			w.open()
			synctest.Wait()
			if !while {
				w.answer(alice, w.get(first[0].ID), tool.Decision{Action: tool.Resume, Result: `1`})
				synctest.Wait()
			}
			list := w.checkLog(id)
			if a := begins(t, list); types(t, 1, list) != "accepted attempt_started finished" || a.BatchID != b.ID || a.Kind != tool.KindSearch || runs.Load() != 1 {
				t.Errorf("%s, accepted %+v, %d runs", types(t, 1, list), a, runs.Load())
			}
		})
	}
}

// TestAcceptedOfACallThatIsLookedAtTwice checks a batch call that passes the gates twice: before and after other calls run. It is described
// twice, and only the second description is published.
func TestAcceptedOfACallThatIsLookedAtTwice(t *testing.T) {
	described := &atomic.Int32{}
	looks := titled("t", mutating, described)
	inBubble(t, []tool.Tool{echo("read", reading), looks}, nil, func(t *testing.T, w *world) {
		b := batchOf(call.Auto, of("read", "t")...)
		done := w.batch(b)
		if a := begins(t, w.checkLog(done.Calls[1].ID)); described.Load() != 2 || a.Title != "look 2" {
			t.Errorf("described %d times, accepted %+v", described.Load(), a)
		}
	})
}
