package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
)

const waitingCalls = 100_000

// fill stores suspended calls.
func fill(ctx context.Context, j store.Store, n int) error {
	errs := make(chan error, 512)
	var all sync.WaitGroup
	var last error
	for range n {
		c := suspendedRecord(serial.Add(1))
		all.Add(1)
		j.Submit(&store.Change{Call: c, Create: true, Events: suspendedEvents(c), Durability: store.Normal}, func(err error) {
			defer all.Done()
			if err != nil {
				select {
				case errs <- err:
				default:
				}
			}
		})
	}
	all.Wait()
	select {
	case last = <-errs:
	default:
	}
	return errors.Join(last, ctx.Err())
}

func inbox(ctx context.Context, s *settings) (result, error) {
	return timed(ctx, s, func(j store.Store) error {
		page, err := j.Calls(ctx, store.Query{Namespace: "default", Statuses: []call.Status{call.Suspended}, OldestFirst: true, Limit: 50})
		if err == nil && len(page.Calls) != 50 {
			err = fmt.Errorf("%d calls", len(page.Calls))
		}
		return err
	})
}

func byID(ctx context.Context, s *settings) (result, error) {
	return timed(ctx, s, func(j store.Store) error {
		_, err := j.Call(ctx, call.Key{Namespace: "default", ID: fmt.Sprintf("direct-%020d", serial.Load()-100)})
		return err
	})
}

// timed measures a read on a store with many waiting calls.
func timed(ctx context.Context, s *settings, read func(store.Store) error) (result, error) {
	j, end, err := openJournal(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer end()
	if err := fill(ctx, j, waitingCalls); err != nil {
		return result{}, err
	}
	var times []time.Duration
	for range 2000 {
		at := time.Now()
		if err := read(j); err != nil {
			return result{}, err
		}
		times = append(times, time.Since(at))
	}
	out := absolute(times, 100*time.Nanosecond)
	out.detail = "median of 2,000 reads"
	return out, nil
}

// suspendedStart measures what a daemon pays for calls that wait.
func suspendedStart(ctx context.Context, s *settings) (result, error) {
	p, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	dir := p.dir
	p.dir = "" // it stays
	empty, err := p.resident()
	p.stop()
	if err != nil {
		return result{}, err
	}
	j, err := sqlite.Open(ctx, sqlite.Config{Dir: filepath.Join(dir, "data")})
	if err != nil {
		return result{}, err
	}
	err = fill(ctx, j, waitingCalls)
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

// idleWatch measures the memory of watchers of a call that waits.
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
	before, err := p.resident()
	if err != nil {
		return result{}, err
	}
	const watchers = 1000
	watch, stop := context.WithCancel(ctx)
	defer stop()
	for range watchers {
		stream, err := client.WatchCalls(watch, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: spec.CallId}, Follow: true})
		if err != nil {
			return result{}, err
		}
		if _, err := stream.Recv(); err != nil {
			return result{}, err
		}
	}
	time.Sleep(time.Second)
	after, err := p.resident()
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

// cancelTree measures how long a cancel takes until every process is dead.
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
