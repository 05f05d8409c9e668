package main

import (
	"context"
	"fmt"
	"os"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// rows returns the rows of the table in section 15 of the design that are implemented.
func rows() []row {
	return []row{
		{"ExecuteTool, read-only no-op / bare", "≥ 0.65", againstBare(execute("bench_noop"), rateRatio)},
		{"CallTool / bare unary", "≥ 0.65", againstBare(unary, rateRatio)},
		{"CallTool, 256 connections / bare unary", "≥ 0.65", manyConnections},
		{"read of one line / bare unary", "≥ 0.5", againstBare(readLine, rateRatio)},
		{"server CPU of read / bare unary", "≤ 2.5", againstBare(readLine, cpuRatio)},
		{"server CPU of ExecuteTool / bare", "≤ 2.0", againstBare(execute("bench_noop"), cpuRatio)},
		{"p50 of ExecuteTool, one client / bare", "≤ 1.30", oneClient},
		{"CallTool as JSON over HTTP / net/http with the same JSON", "≥ 0.6", jsonCalls},
		{"Session / bare", "≥ 1.2", session},
		{"each further progress event, server CPU", "≤ 4.5 µs", progressCost},
		{"ExecuteTool / MCP Go SDK over HTTP, typed", "≥ 6", againstMCP("go-sdk", false)},
		{"ExecuteTool / MCP Go SDK, called by hand", "", againstMCP("go-sdk", true)},
		{"ExecuteTool / mcp-go over HTTP", "≥ 3.5", againstMCP("mcp-go", false)},
		{"ExecuteTool / mcp-go, called by hand", "", againstMCP("mcp-go", true)},
		{"mutating no-op / the same rows straight into the store", "≥ 0.45", mutating},
		{"suspend, decide, finish / the same commits straight", "≥ 0.4", cycles},
		{"durable transitions, 64 writers / append + fdatasync", "≥ 0.12", durable(64)},
		{"durable transitions, 1 writer / append + fdatasync", "≥ 0.40", durable(1)},
		{"PostgreSQL journal, 64 writers, grouped / direct", "≥ 2.5", postgresJournal},
		{"oldest 50 waiting of 1,000,000 calls", "≤ 150 µs", inbox},
		{"get a call by id, of 1,000,000", "≤ 30 µs", byID},
		{"100,000 suspended calls: start; memory each", "≤ 1 s; ≤ 1 KB", suspendedStart},
		{"idle watch, resident", "≤ 14 KB", idleWatch},
		{"1,000 watches by server-sent events, resident", "≤ 20 KB", eventWatch},
		{"CPU per delivered event, 1,000 watchers / bare", "≤ 1.3", fanout},
		{"reattach with 10,000 missed events", "≤ 50 ms", reattach},
		{"isolated `true` over plain exec, 1 GiB of heap", "≤ +6.5 ms", isolated},
		{"subprocess / plain exec with pipes", "≥ 0.85", subprocess},
		{"cancel a tree of 1,000 processes", "≤ 250 ms", cancelTree},
		{"binary; start to serving; idle resident", "45 MB; 50 ms; 40 MB", footprint},
	}
}

// ratio computes the number of a row from the two sides of a round.
type ratio func(daemon, reference sample) float64

func rateRatio(d, r sample) float64 { return d.rate / r.rate }
func cpuRatio(d, r sample) float64  { return float64(d.cpu) / float64(r.cpu) }
func p50Ratio(d, r sample) float64  { return float64(d.p50) / float64(r.p50) }

func againstBare(do op, of ratio) func(context.Context, *settings) (result, error) {
	return func(ctx context.Context, s *settings) (result, error) {
		return pair(ctx, s, s.clients, do, of)
	}
}

func oneClient(ctx context.Context, s *settings) (result, error) {
	return pair(ctx, s, 1, execute("bench_noop"), p50Ratio)
}

// manyConnections gives each of 256 clients its own connection.
func manyConnections(ctx context.Context, s *settings) (result, error) {
	return pairOver(ctx, s, 256, 256, unary, rateRatio)
}

// pair alternates daemon and reference.
func pair(ctx context.Context, s *settings, clients int, do op, of ratio) (result, error) {
	return pairOver(ctx, s, clients, sharedConnections, do, of)
}

func pairOver(ctx context.Context, s *settings, clients, connections int, do op, of ratio) (result, error) {
	return besideBare(ctx, s, func(daemon, reference *process) (result, error) {
		return alternate(s, of,
			func(d time.Duration) (sample, error) { return loadOver(ctx, daemon, clients, connections, d, do) },
			func(d time.Duration) (sample, error) { return loadOver(ctx, reference, clients, connections, d, do) })
	})
}

// besideBare starts a daemon and the bare server, and invokes measure with both.
func besideBare(ctx context.Context, s *settings, measure func(daemon, reference *process) (result, error)) (result, error) {
	daemon, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer daemon.stop()
	reference, err := startBare(ctx)
	if err != nil {
		return result{}, err
	}
	defer reference.stop()
	return measure(daemon, reference)
}

// alternate measures the two sides in turn (A B A B), in short turns. Other load on the machine lasts for seconds. In a long turn, such
// load could disturb only one of the sides: with one long turn for each side, rounds differed by 30 %.
func alternate(s *settings, of ratio, daemon, reference func(time.Duration) (sample, error)) (out result, err error) {
	const each = 5 // turns per round; odd, so that there is a median turn
	var a, b sample
	for range s.rounds * each {
		if a, err = daemon(s.duration / each); err != nil {
			return out, err
		}
		if b, err = reference(s.duration / each); err != nil {
			return out, err
		}
		out.ratios = append(out.ratios, of(a, b))
	}
	out.detail = fmt.Sprintf("%.0f and %.0f calls/s, CPU %v and %v a call, p50 %v and %v; load %v and %v a call", a.rate, b.rate,
		a.cpu.Round(100*time.Nanosecond), b.cpu.Round(100*time.Nanosecond), a.p50.Round(time.Microsecond), b.p50.Round(time.Microsecond),
		a.load.Round(time.Microsecond), b.load.Round(time.Microsecond))
	return out, nil
}

// progressCost compares calls that report progress 200 times with calls that report none.
func progressCost(ctx context.Context, s *settings) (result, error) {
	daemon, err := startDaemon(ctx, s)
	if err != nil {
		return result{}, err
	}
	defer daemon.stop()
	const events = 200
	var costs []time.Duration
	for range s.rounds {
		with, err := load(ctx, daemon, 8, s.duration, execute("bench_progress"))
		if err != nil {
			return result{}, err
		}
		without, err := load(ctx, daemon, 8, s.duration, execute("bench_noop"))
		if err != nil {
			return result{}, err
		}
		costs = append(costs, (with.cpu-without.cpu)/events)
	}
	return absolute(costs, 10*time.Nanosecond), nil
}

func footprint(ctx context.Context, s *settings) (result, error) {
	info, err := os.Stat(s.binary)
	if err != nil {
		return result{}, err
	}
	var starts []time.Duration
	var resident int64
	for range s.rounds {
		p, err := startDaemon(ctx, s)
		if err != nil {
			return result{}, err
		}
		starts = append(starts, p.ready)
		time.Sleep(time.Second)
		resident, err = p.resident()
		p.stop()
		if err != nil {
			return result{}, err
		}
	}
	started := absolute(starts, time.Millisecond)
	return result{value: fmt.Sprintf("%d MB; %s; %d MB", info.Size()>>20, started.value, resident>>20), detail: started.detail}, nil
}

func (p *process) client() (tooldv1.CallServiceClient, func(), error) {
	conns, err := p.dial(1)
	if err != nil {
		return nil, nil, err
	}
	return tooldv1.NewCallServiceClient(conns[0]), func() { closeAll(conns) }, nil
}
