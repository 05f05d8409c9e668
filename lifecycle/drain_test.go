package lifecycle_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

func TestT90P6Drain(t *testing.T) {
	quick, slow, deaf := held(), held(), held()
	deaf.deaf = true
	tools := []tool.Tool{quick.tool("quick", mutating), slow.tool("slow", mutating), deaf.tool("deaf", mutating), slow.tool("queued", mutating), slow.tool("read", reading), asks("asks", tool.Ticket{})}
	inBubble(t, tools, func(c *lifecycle.Config) { c.Concurrency, c.QueueTimeout = 4, time.Hour }, func(t *testing.T, w *world) {
		waits := w.do(spec("asks", ""))
		ids := map[string]string{}
		for _, id := range []string{"quick", "slow", "deaf", "read", "queued"} {
			ids[id] = w.begin(apart(spec(id, "")))
		}
		if st := w.e.Stats(); st.Running != 4 || st.Queued != 1 {
			t.Fatalf("%+v", st)
		}
		go func() {
			time.Sleep(5 * time.Second)
			quick.free()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		before := time.Now()
		drained := make(chan struct{})
		go func() { w.e.Drain(ctx); close(drained) }()
		time.Sleep(time.Second)
		if !w.e.Draining() {
			t.Error("not draining")
		}
		_, err := w.e.Execute(t.Context(), alice, spec("quick", ""), call.ExecuteOptions{})
		wantRefusal(t, err, call.Unavailable, "DRAINING")
		_, err = w.e.Resume(t.Context(), alice, call.ResumeRequest{SuspensionID: waits.Open().ID, Decision: tool.Decision{ID: "decision-1234567", Action: tool.Resume, Result: "1"}})
		wantRefusal(t, err, call.Unavailable, "DRAINING")
		<-drained
		if took := time.Since(before); took > 15*time.Second {
			t.Errorf("took %v", took)
		}
		w.e.Drain(ctx) // A second drain does nothing.
		deaf.free()
		w.store = w.store.Reopen()
		w.open()
		synctest.Wait()
		for id, want := range map[string]struct {
			status   call.Status
			executed call.Executed
			code     tool.Code
		}{
			"quick":  {call.Succeeded, call.Finished, ""},
			"slow":   {call.Cancelled, call.Started, tool.Interrupted},
			"read":   {call.Cancelled, call.Started, tool.Interrupted},
			"deaf":   {call.Cancelled, call.ExecutedUnknown, tool.Interrupted},
			"queued": {call.Cancelled, call.Started, tool.Interrupted}, // The call "queued" got the slot that the call "quick" released.
		} {
			c := w.get(ids[id])
			code := tool.Code("")
			if c.Result != nil && c.Result.Error != nil {
				code = c.Result.Error.Code
			}
			if c.Status != want.status || c.Executed != want.executed || code != want.code {
				t.Errorf("%s: %s %s %s", id, c.Status, c.Executed, code)
			}
			w.checkLog(ids[id])
		}
		if c := w.answer(alice, waits, tool.Decision{Action: tool.Resume, Result: "1"}); c.Status != call.Succeeded {
			t.Errorf("the waiting call: %s", c.Status)
		}
	})
}

// TestDrainLetsAsk checks a tool that asks a question while the daemon stops. The question is stored and waits for the next daemon.
func TestDrainLetsAsk(t *testing.T) {
	asker := made("t", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if c.Resume != nil {
			return tool.Text(c.Resume.Result), nil
		}
		<-ctx.Done()
		return tool.Suspended("?"), nil
	})
	inBubble(t, []tool.Tool{asker}, nil, func(t *testing.T, w *world) {
		id := w.begin(apart(spec("t", "")))
		drain(w.e)
		w.store = w.store.Reopen()
		w.open()
		if c := w.answer(alice, w.get(id), tool.Decision{Action: tool.Resume, Result: "1"}); c.Status != call.Succeeded {
			t.Errorf("call %s", c.Status)
		}
	})
}

// TestDrainAgainstTraffic sends calls and decisions while the daemon stops. Each must be either refused or completed, and no call may run
// after the drain.
func TestDrainAgainstTraffic(t *testing.T) {
	for round := range 20 {
		p := &probe{}
		inBubble(t, []tool.Tool{p.tool("t", mutating), p.tool("read", reading), asks("asks", tool.Ticket{})}, nil, func(t *testing.T, w *world) {
			var waiting []*call.Call
			for range 10 {
				waiting = append(waiting, w.do(spec("asks", "")))
			}
			var all sync.WaitGroup
			var mu sync.Mutex
			published := map[string]call.Status{}
			for i := range 60 {
				s := spec([]string{"t", "read"}[i%2], "")
				all.Go(func() {
					time.Sleep(time.Duration(i*round) * time.Nanosecond)
					watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
					if err != nil {
						wantRefusal(t, err, call.Unavailable, "DRAINING")
						return
					}
					defer watcher.Close()
					for {
						f, err := watcher.Next(t.Context())
						if err == io.EOF || f.Closing {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						for _, ev := range f.Events {
							if ev.Outcome != nil {
								mu.Lock()
								published[s.ID] = ev.Outcome.Status
								mu.Unlock()
							}
						}
					}
				})
			}
			for i, c := range waiting {
				all.Go(func() {
					time.Sleep(time.Duration(i*round) * time.Nanosecond)
					if _, err := w.resume(alice, c, tool.Decision{Action: tool.Resume, Result: fmt.Sprint(i)}); err != nil {
						wantRefusal(t, err, call.Unavailable, "DRAINING")
					}
				})
			}
			time.Sleep(time.Duration(30*round) * time.Nanosecond)
			drain(w.e)
			ran := p.runs.Load()
			all.Wait()
			synctest.Wait()
			if p.runs.Load() != ran {
				t.Errorf("%d tools began after the end", p.runs.Load()-ran)
			}
			w.store = w.store.Reopen()
			w.open()
			synctest.Wait()
			for id, status := range published {
				if c := w.get(id); c.Status != status {
					t.Errorf("published %s and is %s", status, c.Status)
				}
				w.checkLog(id)
			}
			for i, c := range waiting {
				now := w.get(c.ID)
				if now.Status == call.Suspended {
					now = w.answer(alice, now, tool.Decision{Action: tool.Resume, Result: fmt.Sprint(i)})
				}
				if now.Status != call.Succeeded && now.Result.Error.Code != tool.Interrupted || now.Status == call.Succeeded && now.Result.Data != fmt.Sprint(i) {
					t.Errorf("decided call is %s %+v", now.Status, now.Result)
				}
			}
		})
	}
}

// TestDrainWaitsForAdmittedCalls checks a call that was admitted just before the drain began. The drain waits for the call, so that its
// events are in the journal. It does not wait for a refused call.
func TestDrainWaitsForAdmittedCalls(t *testing.T) {
	for name, full := range map[string]bool{"let in": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			var meanwhile func()
			var drained chan struct{}
			inBubble(t, []tool.Tool{echo("read", reading)}, func(c *lifecycle.Config) {
				c.Full = func() bool { // The engine calls Full after it has checked for a drain, so the drain begins in between.
					if meanwhile != nil {
						meanwhile()
					}
					return full
				}
			}, func(t *testing.T, w *world) {
				drained = make(chan struct{})
				meanwhile = sync.OnceFunc(func() {
					go func() { drain(w.e); close(drained) }()
					synctest.Wait()
				})
				s := spec("read", "")
				watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
				if full {
					wantRefusal(t, err, call.ResourceExhausted, "STORAGE_FULL")
					<-drained
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				list, _ := events(t, watcher)
				<-drained
				w.store = w.store.Reopen()
				w.open()
				if last := list[len(list)-1]; w.get(s.ID).Status != last.Outcome.Status || last.Outcome.Result.Error.Code != tool.Interrupted {
					t.Errorf("published %+v, stored %s", last.Outcome, w.get(s.ID).Status)
				}
			})
		})
	}
}

func TestQueueIsInOrderAndPassesSlotsOn(t *testing.T) {
	var order []string
	var mu sync.Mutex
	p := held()
	note := made("t", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		mu.Lock()
		order = append(order, c.ID)
		mu.Unlock()
		if c.Arguments.String("x") == "panic" {
			panic("boom")
		}
		return tool.Text("ok"), nil
	})
	inBubble(t, []tool.Tool{p.tool("slow", mutating), note}, func(c *lifecycle.Config) { c.Concurrency = 1 }, func(t *testing.T, w *world) {
		w.begin(apart(spec("slow", "")))
		var want []string
		for i := range 20 {
			s := spec("t", "")
			switch i {
			case 3:
				s.Timeouts.Queue = time.Second // This call times out in the queue.
			case 5:
				s.Arguments = `{"x":"panic"}` // This call must still release its slot.
			}
			id := w.begin(s)
			if i == 7 {
				if _, err := w.e.Cancel(t.Context(), alice, id, "", time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			if i != 3 && i != 7 {
				want = append(want, id)
			}
		}
		time.Sleep(2 * time.Second)
		if st := w.e.Stats(); st.Running != 1 || st.Queued != 18 {
			t.Errorf("%+v", st)
		}
		p.free()
		synctest.Wait()
		if fmt.Sprint(order) != fmt.Sprint(want) {
			t.Errorf("ran %v, want %v", order, want)
		}
		if st := w.e.Stats(); st.Running != 0 || st.Queued != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestClocks checks when timeouts begin. The timeout of an attempt begins with the intent of the attempt. The timeout of the queue begins
// when the call begins to wait. The time in which a call is suspended does not count for either timeout.
func TestClocks(t *testing.T) {
	took := map[int]time.Duration{}
	slow := made("t", mutating, func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		began := time.Now()
		if got := c.Deadline.Sub(began); got != 3*time.Second {
			t.Errorf("attempt %d has a deadline in %v", c.Attempt, got)
		}
		defer func() { took[c.Attempt] = time.Since(began) }()
		if c.Attempt == 1 {
			time.Sleep(2 * time.Second)
			return tool.Suspended("?"), nil
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	p := held()
	inBubble(t, []tool.Tool{slow, p.tool("slow", mutating)}, func(c *lifecycle.Config) { c.Concurrency, c.QueueTimeout = 1, time.Minute }, func(t *testing.T, w *world) {
		w.begin(apart(spec("slow", "")))
		go func() {
			time.Sleep(50 * time.Second)
			p.free()
		}()
		s := spec("t", "")
		s.Timeouts.Attempt = 3 * time.Second
		c := w.do(s)
		time.Sleep(24 * time.Hour)
		c = w.answer(alice, c, tool.Decision{Action: tool.Resume, Result: "1"})
		if c.Status != call.Failed || c.Result.Error.Reason != "ATTEMPT" || took[1] != 2*time.Second || took[2] != 3*time.Second || c.Result.Duration != 3*time.Second {
			t.Errorf("call %s %+v, took %v", c.Status, c.Result, took)
		}
	})
}
