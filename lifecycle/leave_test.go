package lifecycle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

func lingers(d time.Duration) *time.Duration { return &d }

func TestLeaving(t *testing.T) {
	attended, detached := call.ExecuteOptions{Attended: true}, call.ExecuteOptions{}
	const never = -1
	tests := []struct {
		name    string
		linger  *time.Duration
		options call.ExecuteOptions
		tool    string
		after   time.Duration // The call must still run at this time, and must end immediately after it.
		ends    bool
	}{
		{"default", nil, attended, "held", 30 * time.Second, true},
		{"default, read-only", nil, attended, "heldread", 30 * time.Second, true},
		{"its own time", lingers(time.Minute), attended, "held", time.Minute, true},
		{"at once", lingers(0), attended, "held", 0, true},
		{"never", lingers(never), attended, "held", time.Hour, false},
		{"detached", lingers(0), detached, "held", time.Hour, false},
		{"asked once", lingers(0), attended, "asks", time.Hour, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := held()
			askThenHold := made("asks", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
				if c.Resume == nil {
					return tool.Suspended("?"), nil
				}
				return p.run(ctx, c)
			})
			inBubble(t, []tool.Tool{p.tool("held", mutating), p.tool("heldread", reading), askThenHold}, func(c *lifecycle.Config) { c.Attempt = 10 * time.Hour }, func(t *testing.T, w *world) {
				s := spec(tt.tool, "")
				s.Linger = tt.linger
				watcher := w.start(s, tt.options)
				time.Sleep(time.Hour) // A watched call does not end.
				synctest.Wait()
				if tt.tool == "asks" {
					w.start(s, tt.options).Close()
					resumed, err := w.e.Resume(t.Context(), alice, call.ResumeRequest{SuspensionID: w.get(s.ID).Open().ID, Decision: tool.Decision{ID: "decision-1234567", Action: tool.Resume, Result: "1"}})
					if err != nil {
						t.Fatal(err)
					}
					resumed.Close()
					synctest.Wait()
				}
				if c := w.get(s.ID); c.Status != call.Running {
					t.Fatalf("while watched: %s", c.Status)
				}
				watcher.Close()
				watcher.Close() // A second Close has no effect.
				if tt.after > 0 {
					time.Sleep(tt.after - time.Millisecond)
					synctest.Wait()
					if c := w.get(s.ID); c.Status != call.Running {
						t.Fatalf("before its time: %s", c.Status)
					}
				}
				time.Sleep(2 * time.Millisecond)
				synctest.Wait()
				c := w.get(s.ID)
				if c.Status.Terminal() != tt.ends {
					t.Fatalf("after its time: %s", c.Status)
				}
				if tt.ends {
					if e := c.Result.Error; c.Status != call.Cancelled || e.Code != tool.Cancelled || e.Reason != "CALLER_GONE" || c.Executed != call.Started || c.Cancel.Cause != "CALLER_GONE" {
						t.Errorf("call %+v %+v", c, e)
					}
				}
				p.free()
				synctest.Wait()
				w.checkLog(s.ID)
			})
		})
	}
}

func TestReturningWatcherKeepsTheCall(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, func(c *lifecycle.Config) { c.Attempt = time.Hour }, func(t *testing.T, w *world) {
		s := spec("t", "")
		w.start(s, call.ExecuteOptions{Attended: true}).Close()
		synctest.Wait()
		for range 5 { // Each round attaches to the call, and then watches its id.
			time.Sleep(29 * time.Second)
			w.start(s, call.ExecuteOptions{}).Close()
			time.Sleep(29 * time.Second)
			watcher, err := w.e.Watch(t.Context(), carol, s.ID, "", true)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			watcher.Close()
		}
		feed, err := w.e.Watches().WatchFeed(t.Context(), alice, "run-1", "", "", true) // The watcher of a feed does not count.
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if c := w.get(s.ID); c.Status != call.Cancelled {
			t.Errorf("call is %s", c.Status)
		}
		feed.Close()
	})
}

func TestT106SuspendedCallWithoutWatchers(t *testing.T) {
	p := &probe{}
	slow := made("slow", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		time.Sleep(5 * time.Minute)
		return p.run(ctx, c)
	})
	inBubble(t, []tool.Tool{slow}, gates(namedGate("ask", approval(tool.Ticket{}))), func(t *testing.T, w *world) {
		s := spec("slow", "")
		s.Linger = lingers(0)
		watcher := w.start(s, call.ExecuteOptions{Attended: true})
		synctest.Wait()
		watcher.Close()
		time.Sleep(24 * time.Hour)
		if st := w.e.Stats(); st.Active != 0 {
			t.Errorf("%+v", st)
		}
		c := w.get(s.ID)
		if c.Status != call.Suspended {
			t.Fatalf("after a day: %s", c.Status)
		}
		watcher, err := w.e.Resume(t.Context(), bob, call.ResumeRequest{SuspensionID: c.Open().ID, Decision: tool.Decision{ID: "decision-1234567", Action: tool.Resume, ExpectedDigest: c.Open().Digest}})
		if err != nil {
			t.Fatal(err)
		}
		watcher.Close() // disconnects
		time.Sleep(time.Hour)
		if c := w.get(s.ID); c.Status != call.Succeeded || p.runs.Load() != 1 {
			t.Errorf("call %s, %d runs", c.Status, p.runs.Load())
		}
	})
}

// TestWaitEndsBeforeTheCall checks that the deadline of a request limits the wait and not the call.
func TestWaitEndsBeforeTheCall(t *testing.T) {
	p := held()
	inBubble(t, []tool.Tool{p.tool("t", mutating)}, nil, func(t *testing.T, w *world) {
		s := spec("t", "")
		c, err := w.start(s, call.ExecuteOptions{}).Wait(t.Context(), 3*time.Second)
		if err != nil || c.Status != call.Running {
			t.Errorf("%+v, %v", c, err)
		}
		p.free()
		if c := w.do(s); c.Status != call.Succeeded || p.runs.Load() != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// TestRerunCallEndsWithoutWatchers checks that a call that runs again after a restart ends when no watcher returns within its linger
// time.
func TestRerunCallEndsWithoutWatchers(t *testing.T) {
	for _, back := range []bool{false, true} {
		p := held()
		inBubble(t, []tool.Tool{p.tool("t", reading)}, func(c *lifecycle.Config) { c.Attempt = time.Hour }, func(t *testing.T, w *world) {
			s := spec("t", "")
			watcher := w.start(s, call.ExecuteOptions{Attended: true})
			time.Sleep(time.Second) // The call is in the journal now.
			synctest.Wait()
			w.crash()
			watcher.Close()
			if back {
				time.Sleep(29 * time.Second)
				defer w.start(s, call.ExecuteOptions{Attended: true}).Close()
			}
			time.Sleep(31 * time.Second)
			synctest.Wait()
			if c := w.get(s.ID); c.Status.Terminal() == back {
				t.Errorf("after its time, caller back %t: %s", back, c.Status)
			}
			p.free()
		})
	}
}
