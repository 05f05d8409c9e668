package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/toold-dev/toold/tool"
)

// benchSchema is a typical tool schema with ten properties.
const benchSchema = `{"type":"object","additionalProperties":false,"required":["path","pattern"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096},"pattern":{"type":"string","minLength":1},
"limit":{"type":"integer","minimum":1,"maximum":10000},"offset":{"type":"integer","minimum":0},
"recursive":{"type":"boolean"},"ignore_case":{"type":"boolean"},"ratio":{"type":"number","minimum":0,"maximum":1},
"mode":{"type":"string","enum":["content","files","count"]},"tags":{"type":"array","items":{"type":"string"},"maxItems":16},
"note":{"type":"string","maxLength":200}}}`

// tools returns tools that do no work, so that benchmarks measure toold.
func tools() []tool.Tool {
	reading := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe, ConcurrencySafe: true}
	schema := json.RawMessage(benchSchema)
	ok := func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Status: tool.StatusSuccess, Data: `{"ok":true}`}, nil
	}
	return []tool.Tool{
		tool.Func(tool.Descriptor{ID: "bench_noop", Parameters: schema, Effects: reading}, ok),
		tool.Func(tool.Descriptor{ID: "bench_write", Parameters: schema}, ok),
		tool.Func(tool.Descriptor{ID: "bench_ask", Parameters: schema}, ok),
		tool.Func(tool.Descriptor{ID: "bench_progress", Parameters: schema, Effects: reading}, report(200, 0)),
		tool.Func(tool.Descriptor{ID: "bench_log", Parameters: schema, Effects: reading}, report(10_000, 0)),
		tool.Func(tool.Descriptor{ID: "bench_beat", Parameters: schema, Effects: reading}, report(15*60*25, 40*time.Millisecond)), // runs until it is cancelled
		tool.Func(tool.Descriptor{ID: "bench_ticks", Parameters: schema, Effects: reading}, report(50, 10*time.Millisecond)),      // lasts longer than several journal writes
	}
}

// report returns a tool function that reports progress n times, with a pause before each report.
func report(n int, pause time.Duration) func(context.Context, *tool.Call) (*tool.Result, error) {
	return func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		for i := range n {
			if pause > 0 {
				select {
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				case <-time.After(pause):
				}
			}
			if err := c.Progress(tool.ProgressRunning, float64(i)/float64(n), "step "+strconv.Itoa(i)); err != nil {
				return nil, err
			}
		}
		return &tool.Result{Status: tool.StatusSuccess, Data: `{"ok":true}`}, nil
	}
}
