package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

// absolute returns the result for a row that shows a time.
func absolute(times []time.Duration, round time.Duration) result {
	slices.Sort(times)
	return result{
		value:  times[len(times)/2].Round(round).String(),
		detail: fmt.Sprintf("%v to %v", times[0].Round(round), times[len(times)-1].Round(round)),
	}
}

func openJournal(ctx context.Context, s *settings) (*sqlite.Store, func(), error) {
	dir, err := os.MkdirTemp(s.dir, "journal-")
	if err != nil {
		return nil, nil, err
	}
	j, err := sqlite.Open(ctx, sqlite.Config{Dir: dir})
	if err != nil {
		return nil, nil, err
	}
	return j, func() { j.Close(); os.RemoveAll(dir) }, nil
}

// newRecord returns a record as the daemon would store it for a call.
func newRecord(n int64) *call.Call {
	return &call.Call{
		Namespace: "default", ID: fmt.Sprintf("direct-%020d", n), Tool: "bench_write", ToolDigest: digest,
		Run:    tool.Run{ID: "bench-run", Thread: "bench-thread"},
		Caller: tool.Principal{Namespace: "default", Subject: "bench", Roles: []string{"caller"}}, RequestDigest: digest,
		Requested: arguments, Effective: arguments, Class: call.Sync, Status: call.Running, Executed: call.NotStarted, Created: time.Now(), Revision: 1,
	}
}

func event(n int64, t call.EventType) call.Event {
	return call.Event{Sequence: n, Time: time.Now(), Type: t}
}

// intentAndResult makes the two durable changes of a mutating call.
func intentAndResult(ctx context.Context, j store.Store, n int64) error {
	c := newRecord(n)
	c.LastSequence = 2
	err := j.Commit(ctx, &store.Change{Call: c, Create: true, Events: []call.Event{event(1, call.EventAccepted), event(2, call.EventAttemptStarted)}})
	if err != nil {
		return err
	}
	return commitEnd(ctx, j, c, 3)
}

func commitEnd(ctx context.Context, j store.Store, c *call.Call, sequence int64) error {
	done := *c
	done.Revision++
	done.Status, done.Executed, done.LastSequence = call.Succeeded, call.Finished, sequence
	done.Result = &tool.Result{Status: tool.StatusSuccess, Data: `{"ok":true}`}
	ev := event(sequence, call.EventFinished)
	ev.Outcome = &call.Outcome{Status: done.Status, Executed: done.Executed, Result: done.Result}
	return j.Commit(ctx, &store.Change{Call: &done, Events: []call.Event{ev}})
}

// straight runs do from many goroutines, directly on the store and without a daemon. It returns the number of runs per second.
func straight(ctx context.Context, clients int, d time.Duration, do func(n int64) error) (float64, error) {
	var count atomic.Int64
	errs := make([]error, clients)
	began := time.Now()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				if errs[i] = do(serial.Add(1)); errs[i] != nil {
					return
				}
				count.Add(1)
			}
		})
	}
	all.Wait()
	return float64(count.Load()) / time.Since(began).Seconds(), errors.Join(errs...)
}

// mutating compares calls that store intent and result with the same rows stored without a daemon.
func mutating(ctx context.Context, s *settings) (result, error) {
	return againstJournal(ctx, s, execute("bench_write"), mutatingStages)
}

// cycles compares suspend, decide and finish with the same commits made without a daemon.
func cycles(ctx context.Context, s *settings) (result, error) {
	return againstJournal(ctx, s, suspendAndDecide, cycleStages)
}

// suspendAndDecide starts a call that needs an approval and approves it.
func suspendAndDecide(ctx context.Context, c tooldv1.CallServiceClient, n int64) error {
	r, err := c.CallTool(ctx, &tooldv1.CallToolRequest{Spec: callSpec("bench_ask", n)})
	if err != nil {
		return err
	}
	s := r.GetCall().GetSuspension()
	if s == nil {
		return fmt.Errorf("the call is %v, not suspended: %v", r.GetCall().GetStatus(), r.GetCall().GetResult())
	}
	stream, err := c.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: s.GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: fmt.Sprintf("bench-decision-%020d", n), Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: s.GetDigest(),
	}})
	if err != nil {
		return err
	}
	return finished(stream.Recv)
}

func suspendedRecord(n int64) *call.Call {
	c := newRecord(n)
	c.Status, c.LastSequence, c.Detached = call.Suspended, 3, true
	c.Rounds = []call.Round{{Suspension: call.Suspension{
		ID: fmt.Sprintf("s-direct-%020d", n), Round: 1, Origin: "permission", Action: "approval", Message: "Allow bench_ask?",
		ResumeMode: tool.ReplayToolCall, Approvers: &tool.Approvers{Roles: []string{"approver"}, Count: 1}, Digest: digest,
		Pending: call.Pending{ID: c.ID, Name: c.Tool, Arguments: arguments}, Created: call.StampOf(c.Created), ExpiresAt: call.StampOf(c.Created).Add(30 * 24 * time.Hour),
	}}}
	return c
}

func suspendedEvents(c *call.Call) []call.Event {
	ev := event(3, call.EventSuspended)
	ev.Suspension = &c.Rounds[0].Suspension
	return []call.Event{event(1, call.EventAccepted), event(2, call.EventGateDecided), ev}
}

// durable compares durable changes with appends of the same size that share an fdatasync in the same way.
func durable(writers int) func(context.Context, *settings) (result, error) {
	return func(ctx context.Context, s *settings) (result, error) {
		j, end, err := openJournal(ctx, s)
		if err != nil {
			return result{}, err
		}
		defer end()
		raw, err := newAppender(filepath.Join(s.dir, "raw"), 1200)
		if err != nil {
			return result{}, err
		}
		defer raw.close()
		var out result
		var a, b float64
		for range s.rounds {
			if a, err = straight(ctx, writers, s.duration, func(n int64) error { return intentAndResult(ctx, j, n) }); err != nil {
				return out, err
			}
			if b, err = straight(ctx, writers, s.duration, func(int64) error { return raw.append() }); err != nil {
				return out, err
			}
			out.ratios = append(out.ratios, 2*a/b) // each call of intentAndResult makes two changes
		}
		out.detail = fmt.Sprintf("%.0f and %.0f a second", 2*a, b)
		return out, nil
	}
}

// appender appends to a file. Appends that arrive during a sync share the next one.
type appender struct {
	file *os.File
	work chan chan error
	size int // bytes per append
}

func newAppender(name string, size int) (*appender, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	a := &appender{file: f, work: make(chan chan error, 512), size: size}
	go a.run()
	return a, nil
}

func (a *appender) append() error {
	done := make(chan error, 1)
	a.work <- done
	return <-done
}

func (a *appender) run() {
	for first := range a.work {
		group := []chan error{first}
	more:
		for len(group) < 512 {
			select {
			case next := <-a.work:
				group = append(group, next)
			default:
				break more
			}
		}
		_, err := a.file.Write(make([]byte, a.size*len(group)))
		if err == nil {
			err = unix.Fdatasync(int(a.file.Fd()))
		}
		for _, done := range group {
			done <- err
		}
	}
}

func (a *appender) close() {
	close(a.work)
	a.file.Close()
}
