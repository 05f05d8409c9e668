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

// arguments are 200 bytes that match a schema of ten properties.
const arguments = `{"path":"src/main/server.go","pattern":"func Serve","limit":200,"offset":10,"recursive":true,"ignore_case":false,"ratio":0.75,"mode":"content","tags":["alpha","beta"],"note":"a short remark, 200 bytes"}`

// An op makes one call. n is different for each call.
type op func(ctx context.Context, c tooldv1.CallServiceClient, n int64) error

// A client makes calls one after another over a persistent connection.
type client func(ctx context.Context, n int64) error

// A sample is the measurement of one side in one round.
type sample struct {
	rate float64       // calls per second
	cpu  time.Duration // CPU time of the server for each call
	load time.Duration // CPU time of this process for each call
	p50  time.Duration
}

var serial atomic.Int64

// sharedConnections is the number of connections that the clients share, unless a row says otherwise.
const sharedConnections = 4

// load makes calls from many clients for the duration d.
func load(ctx context.Context, p *process, clients int, d time.Duration, do op) (sample, error) {
	return loadOver(ctx, p, clients, sharedConnections, d, do)
}

func loadOver(ctx context.Context, p *process, clients, connections int, d time.Duration, do op) (sample, error) {
	conns, err := p.dial(min(clients, connections))
	if err != nil {
		return sample{}, err
	}
	defer closeAll(conns)
	all := make([]client, clients)
	for i := range all {
		c := tooldv1.NewCallServiceClient(conns[i%len(conns)])
		all[i] = func(ctx context.Context, n int64) error { return do(ctx, c, n) }
	}
	return drive(ctx, p, all, d)
}

// drive lets each client make calls for the duration d, one after another.
func drive(ctx context.Context, p *process, clients []client, d time.Duration) (sample, error) {
	for _, do := range clients { // warm up connections, stream workers and query plans
		for range max(4, 200/len(clients)) {
			if err := do(ctx, serial.Add(1)); err != nil {
				return sample{}, fmt.Errorf("warm-up: %w", err)
			}
		}
	}
	server, err := p.cpu()
	own, err2 := cpuOf("self")
	if err := errors.Join(err, err2); err != nil {
		return sample{}, err
	}
	times := make([][]time.Duration, len(clients))
	errs := make([]error, len(clients))
	began := time.Now()
	var all sync.WaitGroup
	for i, do := range clients {
		all.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				at := time.Now()
				if err := do(ctx, serial.Add(1)); err != nil {
					errs[i] = err
					return
				}
				times[i] = append(times[i], time.Since(at))
			}
		})
	}
	all.Wait()
	elapsed := time.Since(began)
	serverAfter, err := p.cpu()
	ownAfter, err2 := cpuOf("self")
	if err := errors.Join(append(errs, err, err2)...); err != nil {
		return sample{}, err
	}
	merged := slices.Concat(times...)
	slices.Sort(merged)
	n := time.Duration(len(merged))
	if n == 0 {
		return sample{}, errors.New("no call came to its end")
	}
	return sample{rate: float64(n) / elapsed.Seconds(), cpu: (serverAfter - server) / n, load: (ownAfter - own) / n, p50: merged[n/2]}, nil
}

func closeAll(conns []*grpc.ClientConn) {
	for _, c := range conns {
		c.Close()
	}
}

// callSpec returns the spec of a call. Each call of bench_noop and bench_progress uses the same thread. All other calls get a thread of
// their own, because mutating calls of one thread wait for each other and that would distort the measurement.
func callSpec(tool string, n int64) *tooldv1.CallSpec {
	thread := "bench-thread"
	if tool != "bench_noop" && tool != "bench_progress" {
		thread = fmt.Sprintf("bench-thread-%d", n)
	}
	return &tooldv1.CallSpec{
		Tool: tool, Arguments: arguments, CallId: fmt.Sprintf("bench-%020d", n),
		Run: &tooldv1.Run{RunId: "bench-run", ThreadId: thread},
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

// finished reads a stream to its end and returns an error unless the call succeeded.
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

// unary is the op that makes one call with the unary method.
func unary(ctx context.Context, c tooldv1.CallServiceClient, n int64) error {
	return inOneMessage(ctx, c, callSpec("bench_noop", n))
}

// readLine reads a file of one line with the built-in tool. All calls are in one thread, as in a conversation.
func readLine(ctx context.Context, c tooldv1.CallServiceClient, n int64) error {
	spec := callSpec("bench_noop", n)
	spec.Tool, spec.Arguments = "read", `{"path":"`+lineFile+`"}`
	return inOneMessage(ctx, c, spec)
}

func inOneMessage(ctx context.Context, c tooldv1.CallServiceClient, spec *tooldv1.CallSpec) error {
	r, err := c.CallTool(ctx, &tooldv1.CallToolRequest{Spec: spec})
	if err != nil {
		return err
	}
	if s := r.GetCall().GetStatus(); s != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		return fmt.Errorf("the call is %v: %v", s, r.GetCall().GetResult())
	}
	return nil
}
