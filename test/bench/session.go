package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// session compares calls over one long stream with bare streams, one per call.
func session(ctx context.Context, s *settings) (result, error) {
	return besideBare(ctx, s, func(daemon, reference *process) (result, error) {
		return alternate(s, rateRatio,
			func(d time.Duration) (sample, error) { return overSession(ctx, daemon, s.clients, d) },
			func(d time.Duration) (sample, error) {
				return load(ctx, reference, s.clients, d, execute("bench_noop"))
			})
	})
}

func overSession(ctx context.Context, p *process, many int, d time.Duration) (sample, error) {
	c, hangUp, err := p.client()
	if err != nil {
		return sample{}, err
	}
	defer hangUp()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := c.Session(ctx)
	if err != nil {
		return sample{}, err
	}
	t := &talk{stream: stream, ready: make(chan struct{}, 1), ends: make([]chan error, many)}
	clients := make([]client, many)
	for i := range clients {
		t.ends[i] = make(chan error, 1)
		clients[i] = t.client(i)
	}
	var both sync.WaitGroup
	both.Go(t.read)
	both.Go(func() { t.write(ctx) })
	out, err := drive(ctx, p, clients, d)
	stop()
	both.Wait()
	return out, err
}

// A talk is one stream of the RPC Session that several clients share. Each client has one call at a time.
type talk struct {
	stream grpc.BidiStreamingClient[tooldv1.SessionRequest, tooldv1.SessionResponse]
	ready  chan struct{} // holds a value when something is queued
	ends   []chan error

	mu    sync.Mutex
	queue []*tooldv1.SessionItem
}

func (t *talk) client(i int) client {
	id := strconv.Itoa(i)
	return func(_ context.Context, n int64) error {
		t.ask(&tooldv1.SessionItem{CorrelationId: id, Item: &tooldv1.SessionItem_Execute{
			Execute: &tooldv1.ExecuteToolRequest{Spec: callSpec("bench_noop", n)},
		}})
		return <-t.ends[i]
	}
}

func (t *talk) ask(item *tooldv1.SessionItem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append(t.queue, item)
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// write sends all queued requests in one message, as a client with many calls does. read reports errors of the stream.
func (t *talk) write(ctx context.Context) {
	for {
		select {
		case <-t.ready:
		case <-ctx.Done():
			return
		}
		runtime.Gosched() // Let clients queue more requests for this message.
		t.mu.Lock()
		items := t.queue
		t.queue = nil
		t.mu.Unlock()
		if t.stream.Send(&tooldv1.SessionRequest{Items: items}) != nil {
			return
		}
	}
}

// read delivers the end of each call to the client that waits for it.
func (t *talk) read() {
	for {
		resp, err := t.stream.Recv()
		if err != nil {
			for _, end := range t.ends {
				select {
				case end <- err:
				default: // the client already has an outcome
				}
			}
			return
		}
		for _, answer := range resp.GetAnswers() {
			i, err := strconv.Atoi(answer.GetCorrelationId())
			if err == nil && answer.GetEnd() {
				t.ends[i] <- ended(answer)
			}
		}
	}
}

// ended returns an error unless the item is the end of a call that succeeded.
func ended(answer *tooldv1.SessionAnswer) error {
	if answer.GetError() != nil {
		return fmt.Errorf("the item ended with %v", answer.GetError())
	}
	events := answer.GetFrame().GetEvents()
	if len(events) == 0 || events[len(events)-1].GetFinished().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		return fmt.Errorf("the call ended with %v", answer)
	}
	return nil
}
