package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

const waitingCalls = 100_000

// fill stores n changes, in groups.
func fill(ctx context.Context, j store.Store, n int, change func(i int) *store.Change) error {
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	room := make(chan struct{}, 4096) // limits the changes in memory that the journal has not written yet
	for i := 0; i < n && failed.Load() == nil && ctx.Err() == nil; i++ {
		all.Add(1)
		room <- struct{}{}
		j.Submit(change(i), func(err error) {
			if err != nil {
				failed.Store(&err)
			}
			<-room
			all.Done()
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

func suspension(int) *store.Change {
	c := suspendedRecord(serial.Add(1))
	return &store.Change{Call: c, Create: true, Events: suspendedEvents(c), Durability: store.Normal}
}

// These constants describe the journal in which the benchmark measures reads. One of every waitingShare calls is suspended; the others have
// ended.
const (
	manyCalls    = 1_000_000
	waitingShare = 20
)

// history returns the change that stores the i-th call of a journal that has been in use.
func history(i int) *store.Change {
	if i%waitingShare == 0 {
		return suspension(i)
	}
	c := newRecord(serial.Add(1))
	c.Class, c.Status, c.Executed, c.LastSequence = call.Behind, call.Succeeded, call.Finished, 3
	c.Run = tool.Run{ID: fmt.Sprintf("bench-run-%d", i/20), Thread: fmt.Sprintf("bench-thread-%d", i/200)}
	c.Result = &tool.Result{Status: tool.StatusSuccess, Data: `{"ok":true}`}
	ended := event(3, call.EventFinished)
	ended.Outcome = &call.Outcome{Status: c.Status, Executed: c.Executed, Result: c.Result}
	return &store.Change{Call: c, Create: true, Events: []call.Event{event(1, call.EventAccepted), event(2, call.EventAttemptStarted), ended}, Durability: store.Normal}
}

// openHistory returns a journal of a million calls. The first call fills it.
func (s *settings) openHistory(ctx context.Context) (store.Store, error) {
	if s.history != nil {
		return s.history, nil
	}
	j, end, err := openJournal(ctx, s)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	s.firstCall = serial.Load() + 1
	if err := fill(ctx, j, manyCalls, history); err != nil {
		end()
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "a journal of %d calls took %v\n", manyCalls, time.Since(began).Round(time.Second))
	s.history, s.ends = j, append(s.ends, end)
	return j, nil
}

func inbox(ctx context.Context, s *settings) (result, error) {
	return timed(ctx, s, func(j store.Store, _ int) error {
		page, err := j.Calls(ctx, call.Query{Namespace: "default", Statuses: []call.Status{call.Suspended}, OldestFirst: true, Limit: 50})
		if err == nil && len(page.Calls) != 50 {
			err = fmt.Errorf("%d calls", len(page.Calls))
		}
		return err
	})
}

func byID(ctx context.Context, s *settings) (result, error) {
	return timed(ctx, s, func(j store.Store, i int) error {
		_, err := j.Call(ctx, call.Key{Namespace: "default", ID: fmt.Sprintf("direct-%020d", s.firstCall+int64(i)*7919%manyCalls)})
		return err
	})
}

// timed measures a read on a store of many calls.
func timed(ctx context.Context, s *settings, read func(j store.Store, i int) error) (result, error) {
	j, err := s.openHistory(ctx)
	if err != nil {
		return result{}, err
	}
	var times []time.Duration
	for i := range 2000 {
		at := time.Now()
		if err := read(j, i); err != nil {
			return result{}, err
		}
		times = append(times, time.Since(at))
	}
	first := times[0]
	out := absolute(times, 100*time.Nanosecond)
	out.detail = fmt.Sprintf("median of 2,000 reads; the first took %v", first.Round(time.Microsecond))
	return out, nil
}

// suspendedStart measures what suspended calls cost a daemon at its start.
func suspendedStart(ctx context.Context, s *settings) (result, error) {
	p, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	dir := p.dir
	p.dir = "" // keep the directory after stop
	empty, err := p.resident()
	p.stop()
	if err != nil {
		return result{}, err
	}
	j, err := sqlite.Open(ctx, sqlite.Config{Dir: filepath.Join(dir, "data")})
	if err != nil {
		return result{}, err
	}
	err = fill(ctx, j, waitingCalls, suspension)
	if err := errors.Join(err, j.Close()); err != nil {
		return result{}, err
	}
	q, err := start(ctx, s.binary, []string{"serve", "--config", filepath.Join(dir, "toold.yaml")}, nil)
	if err != nil {
		return result{}, err
	}
	q.dir = dir
	defer q.stop()
	time.Sleep(time.Second)
	full, err := q.resident()
	if err != nil {
		return result{}, err
	}
	return result{
		value:  fmt.Sprintf("%v; %d B", q.ready.Round(time.Millisecond), max(full-empty, 0)/waitingCalls),
		detail: fmt.Sprintf("start without them %v; resident %d and %d MB", p.ready.Round(time.Millisecond), empty>>20, full>>20),
	}, nil
}

// idleWatch measures the memory of watchers of a suspended call.
func idleWatch(ctx context.Context, s *settings) (result, error) {
	p, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	client, end, err := p.client()
	if err != nil {
		return result{}, err
	}
	defer end()
	spec := callSpec("bench_ask", serial.Add(1))
	if _, err := client.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec}); err != nil {
		return result{}, err
	}
	watch, stop := context.WithCancel(ctx)
	defer stop()
	return perWatcher(p, func() error {
		stream, err := client.WatchCalls(watch, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: spec.CallId}, Follow: true})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	})
}

// perWatcher measures the memory that each of a thousand idle watchers takes. join adds one.
func perWatcher(p *process, join func() error) (result, error) {
	const idle = 11 * time.Second // Wait two periods: an idle daemon returns unused memory every five seconds.
	come := func(watchers int) (resident int64, err error) {
		for range watchers {
			if err := join(); err != nil {
				return 0, err
			}
		}
		time.Sleep(idle)
		return p.resident()
	}
	before, err := come(20) // The first watchers also load code, whose memory must not count.
	if err != nil {
		return result{}, err
	}
	const watchers = 1000
	after, err := come(watchers)
	if err != nil {
		return result{}, err
	}
	return result{value: fmt.Sprintf("%.1f KB", float64(after-before)/watchers/1024), detail: fmt.Sprintf("%d watchers, %d to %d MB", watchers, before>>20, after>>20)}, nil
}

// reattach measures reading a long log from its first event.
func reattach(ctx context.Context, s *settings) (result, error) {
	p, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	client, end, err := p.client()
	if err != nil {
		return result{}, err
	}
	defer end()
	const events = 10_000
	spec := callSpec("bench_log", serial.Add(1))
	stream, err := client.ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec})
	if err != nil {
		return result{}, err
	}
	first, err := stream.Recv()
	if err == nil {
		err = finished(stream.Recv)
	}
	if err != nil {
		return result{}, err
	}
	var times []time.Duration
	for range 20 {
		at := time.Now()
		n, err := count(ctx, client, &tooldv1.ExecuteToolRequest{Spec: spec, Cursor: first.GetFrame().GetCursor()})
		if err != nil {
			return result{}, err
		}
		if n < events-300 {
			return result{}, fmt.Errorf("%d events came back", n)
		}
		times = append(times, time.Since(at))
	}
	return absolute(times, 100*time.Microsecond), nil
}

func count(ctx context.Context, client tooldv1.CallServiceClient, r *tooldv1.ExecuteToolRequest) (int, error) {
	stream, err := client.ExecuteTool(ctx, r)
	if err != nil {
		return 0, err
	}
	n := 0
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		n += len(m.GetFrame().GetEvents())
	}
}

// cancelTree measures the time from a cancel until every process is dead.
func cancelTree(ctx context.Context, s *settings) (result, error) {
	p, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	client, end, err := p.client()
	if err != nil {
		return result{}, err
	}
	defer end()
	var times []time.Duration
	for range s.rounds {
		spec := callSpec("bash", serial.Add(1))
		spec.Arguments = `{"command":"for i in $(seq 1 20); do (for j in $(seq 1 50); do sleep 300 & done; wait) & done; sleep 1; echo up; wait"}`
		stream, err := client.ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: spec})
		if err != nil {
			return result{}, err
		}
		if err := untilOutput(stream.Recv); err != nil {
			return result{}, err
		}
		time.Sleep(time.Second)
		at := time.Now()
		r, err := client.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: spec.CallId, Wait: durationpb.New(20 * time.Second)})
		if err != nil {
			return result{}, err
		}
		times = append(times, time.Since(at))
		if got := r.GetCall().GetStatus(); got != tooldv1.CallStatus_CALL_STATUS_CANCELLED {
			return result{}, fmt.Errorf("the call is %v", got)
		}
	}
	return absolute(times, time.Millisecond), nil
}

func untilOutput[T interface{ GetFrame() *tooldv1.Frame }](recv func() (T, error)) error {
	for {
		m, err := recv()
		if err != nil {
			return err
		}
		for _, ev := range m.GetFrame().GetEvents() {
			if ev.GetOutput() != nil {
				return nil
			}
			if f := ev.GetFinished(); f != nil {
				return fmt.Errorf("the call ended: %v", f)
			}
		}
	}
}
