package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// arguments are 200 bytes against a schema of ten properties.
const arguments = `{"path":"src/main/server.go","pattern":"func Serve","limit":200,"offset":10,"recursive":true,"ignore_case":false,"ratio":0.75,"mode":"content","tags":["alpha","beta"],"note":"a short remark, 200 bytes"}`

// An op does one call; n is unique in the run.
type op func(ctx context.Context, c tooldv1.CallServiceClient, n int64) error

// A sample is one side of one round.
type sample struct {
	calls   int64
	rate    float64       // calls a second
	cpu     time.Duration // of the server, each call
	p50     time.Duration
	elapsed time.Duration
}

var serial atomic.Int64

// load calls from many clients for a while.
func load(ctx context.Context, p *process, clients int, d time.Duration, do op) (sample, error) {
	conns, err := p.dial(min(clients, 4))
	if err != nil {
		return sample{}, err
	}
	defer closeAll(conns)
	for _, c := range conns { // connections, stream workers and plans are warm
		for range 50 {
			if err := do(ctx, tooldv1.NewCallServiceClient(c), serial.Add(1)); err != nil {
				return sample{}, fmt.Errorf("warm-up: %w", err)
			}
		}
	}
	before, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	times := make([][]time.Duration, clients)
	errs := make([]error, clients)
	began := time.Now()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			client := tooldv1.NewCallServiceClient(conns[i%len(conns)])
			for time.Since(began) < d && ctx.Err() == nil {
				at := time.Now()
				if err := do(ctx, client, serial.Add(1)); err != nil {
					errs[i] = err
					return
				}
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(began)
	after, err := p.cpu()
	if err := errors.Join(append(errs, err)...); err != nil {
		return sample{}, err
	}
	merged := slices.Concat(times...)
	slices.Sort(merged)
	n := int64(len(merged))
	if n == 0 {
		return sample{}, errors.New("no call came to its end")
	}
	return sample{calls: n, rate: float64(n) / elapsed.Seconds(), cpu: (after - before) / time.Duration(n), p50: merged[n/2], elapsed: elapsed}, nil
}

func closeAll(conns []*grpc.ClientConn) {
	for _, c := range conns {
		c.Close()
	}
}

func callSpec(tool string, n int64) *tooldv1.CallSpec {
	return &tooldv1.CallSpec{
		Tool: tool, Arguments: arguments, CallId: fmt.Sprintf("bench-%020d", n),
		Run: &tooldv1.Run{RunId: "bench-run", ThreadId: "bench-thread"},
	}
}

// execute returns the op that streams one call to its end.
func execute(tool string) op {
	return func(ctx context.Context, c tooldv1.CallServiceClient, n int64) error {
		stream, err := c.ExecuteTool(ctx, &tooldv1.ExecuteToolRequest{Spec: callSpec(tool, n)})
		if err != nil {
			return err
		}
		return finished(stream.Recv)
	}
}

// finished reads a stream to its end and wants a success.
func finished[T interface{ GetFrame() *tooldv1.Frame }](recv func() (T, error)) error {
	var last *tooldv1.CallFinished
	for {
		m, err := recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, ev := range m.GetFrame().GetEvents() {
			if f := ev.GetFinished(); f != nil {
				last = f
			}
		}
	}
	if last.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		return fmt.Errorf("the call ended %v: %v", last.GetStatus(), last.GetResult())
	}
	return nil
}

// unary is the op that gets one call in one message.
func unary(ctx context.Context, c tooldv1.CallServiceClient, n int64) error {
	r, err := c.CallTool(ctx, &tooldv1.CallToolRequest{Spec: callSpec("bench_noop", n)})
	if err != nil {
		return err
	}
	if s := r.GetCall().GetStatus(); s != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		return fmt.Errorf("the call is %v: %v", s, r.GetCall().GetResult())
	}
	return nil
}
