package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const fanoutWatchers = 1000

// fanout compares the cost of delivering an event to one of a thousand watchers of a call.
func fanout(ctx context.Context, s *settings) (result, error) {
	return besideBare(ctx, s, func(daemon, reference *process) (out result, err error) {
		var a, b delivery
		for range s.rounds {
			if a, err = deliver(ctx, daemon, s.duration); err != nil {
				return out, err
			}
			if b, err = deliver(ctx, reference, s.duration); err != nil {
				return out, err
			}
			out.ratios = append(out.ratios, float64(a.cpu)/float64(b.cpu))
		}
		out.detail = fmt.Sprintf("CPU %v and %v an event; %.0f and %.0f events/s, %.2f and %.2f in a frame",
			a.cpu.Round(10*time.Nanosecond), b.cpu.Round(10*time.Nanosecond), a.rate, b.rate, a.perFrame, b.perFrame)
		return out, nil
	})
}

// A delivery is what the watchers of one server received. The server is the daemon or the reference.
type delivery struct {
	cpu      time.Duration // CPU time of the server, for each event that a watcher got
	rate     float64       // events per second over all watchers
	perFrame float64
}

// deliver watches a call that reports progress 25 times a second. This rate leaves the machine about half idle. On a busy machine a slow
// watcher would get several events in one frame, and the two sides would not do the same work.
func deliver(ctx context.Context, p *process, d time.Duration) (delivery, error) {
	conns, err := p.dial(4)
	if err != nil {
		return delivery{}, err
	}
	defer closeAll(conns)
	var them audience
	defer them.all.Wait()
	watching, leave := context.WithCancel(ctx)
	defer leave()
	client := tooldv1.NewCallServiceClient(conns[0])
	spec := callSpec("bench_beat", serial.Add(1))
	stream, err := client.ExecuteTool(watching, &tooldv1.ExecuteToolRequest{Spec: spec})
	if err != nil {
		return delivery{}, err
	}
	if _, err := stream.Recv(); err != nil {
		return delivery{}, err
	}
	for i := range fanoutWatchers {
		if err := them.join(watching, tooldv1.NewCallServiceClient(conns[i%len(conns)]), spec.CallId); err != nil {
			return delivery{}, err
		}
	}
	time.Sleep(200 * time.Millisecond) // Wait until every watcher has caught up with the call.
	got, err := them.measure(p, d)
	_, err2 := client.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: spec.CallId})
	return got, errors.Join(err, err2)
}

// An audience is the set of watchers of a call.
type audience struct {
	events, frames atomic.Int64
	all            sync.WaitGroup
}

// join adds a watcher that stays until ctx is done.
func (a *audience) join(ctx context.Context, client tooldv1.CallServiceClient, id string) error {
	stream, err := client.WatchCalls(ctx, &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: id}, Follow: true})
	if err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	a.all.Go(func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			if n := len(m.GetFrame().GetEvents()); n > 0 {
				a.frames.Add(1)
				a.events.Add(int64(n))
			}
		}
	})
	return nil
}

// measure returns what the watchers received within d, and the CPU time of the server for it.
func (a *audience) measure(p *process, d time.Duration) (delivery, error) {
	used, err := p.cpu()
	if err != nil {
		return delivery{}, err
	}
	began, hadEvents, hadFrames := time.Now(), a.events.Load(), a.frames.Load()
	time.Sleep(d)
	elapsed, events, frames := time.Since(began), a.events.Load()-hadEvents, a.frames.Load()-hadFrames
	now, err := p.cpu()
	if err != nil {
		return delivery{}, err
	}
	if want := int64(d/progressInterval) * fanoutWatchers; events < want*3/4 {
		return delivery{}, fmt.Errorf("%d of %d events came", events, want)
	}
	return delivery{cpu: (now - used) / time.Duration(events), rate: float64(events) / elapsed.Seconds(), perFrame: float64(events) / float64(frames)}, nil
}
