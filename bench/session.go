package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"google.golang.org/grpc"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// session measures calls over one long stream beside bare streams, one for each call.
func session(ctx context.Context, s *settings) (result, error) {
	return besideBare(ctx, s, func(daemon, reference *process) (result, error) {
		return alternate(s, rateRatio,
			func() (sample, error) { return overSession(ctx, daemon, s) },
			func() (sample, error) { return load(ctx, reference, s.clients, s.duration, execute("bench_noop")) })
	})
}

func overSession(ctx context.Context, p *process, s *settings) (sample, error) {
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
	t := &talk{stream: stream, ends: make([]chan error, s.clients)}
	clients := make([]client, s.clients)
	for i := range clients {
		t.ends[i] = make(chan error, 1)
		clients[i] = t.client(i)
	}
	var reading sync.WaitGroup
	reading.Go(t.read)
	out, err := drive(ctx, p, clients, s.duration)
	stop()
	reading.Wait()
	return out, err
}

// A talk is a session that clients share; each has one call at a time.
type talk struct {
	stream grpc.BidiStreamingClient[tooldv1.SessionRequest, tooldv1.SessionResponse]
	send   sync.Mutex
	ends   []chan error
}

func (t *talk) client(i int) client {
	id := strconv.Itoa(i)
	return func(_ context.Context, n int64) error {
		t.send.Lock()
		err := t.stream.Send(&tooldv1.SessionRequest{CorrelationId: id, Item: &tooldv1.SessionRequest_Execute{
			Execute: &tooldv1.ExecuteToolRequest{Spec: callSpec("bench_noop", n)},
		}})
		t.send.Unlock()
		if err != nil {
			return err
		}
		return <-t.ends[i]
	}
}

// read hands each end to the client that waits for it.
func (t *talk) read() {
	for {
		resp, err := t.stream.Recv()
		if err != nil {
			for _, end := range t.ends {
				select {
				case end <- err:
				default: // nobody waits twice
				}
			}
			return
		}
		if !resp.GetEnd() {
			continue
		}
		i, err := strconv.Atoi(resp.GetCorrelationId())
		if err != nil {
			continue // of no client here
		}
		t.ends[i] <- ended(resp)
	}
}

// ended says whether an item came to the end of a call that succeeded.
func ended(resp *tooldv1.SessionResponse) error {
	if resp.GetError() != nil {
		return fmt.Errorf("the item ended with %v", resp.GetError())
	}
	events := resp.GetFrame().GetEvents()
	if len(events) == 0 || events[len(events)-1].GetFinished().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		return fmt.Errorf("the call ended with %v", resp)
	}
	return nil
}
