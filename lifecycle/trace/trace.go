// Package trace reports pipeline runs to a tracer, for operators.
package trace

import (
	"context"

	"github.com/toold-dev/toold/call"
)

// A Tracer observes the pipeline runs of calls. A pipeline run begins when a call starts or a decision resumes it, and ends with an outcome
// or a question. Its methods are called concurrently and must not block.
type Tracer interface {
	// Begin returns the context for a pipeline run, and the name of its trace. The first pipeline run of a call stores the name in
	// Call.Trace, where later pipeline runs find it. request is the context of the request that started the pipeline run. It has no values
	// when the daemon resumed the call at its start.
	Begin(request context.Context, c *call.Call) (ctx context.Context, trace string)
	// End is called with the record of the call when the pipeline run is over.
	End(ctx context.Context, c *call.Call)
}

// Pipelines calls a Tracer for pipeline runs. Without a Tracer it does nothing and reads no record.
type Pipelines struct{ Tracer }

// Begin begins the trace of a pipeline run and returns the context for it.
func (t Pipelines) Begin(request context.Context, c *call.Call) context.Context {
	if t.Tracer == nil {
		return context.Background()
	}
	ctx, trace := t.Tracer.Begin(context.WithoutCancel(request), c)
	if c.Status == call.New && c.Trace == "" && c.Revision == 0 { // The record may be changed without a lock: no other goroutine has it yet.
		c.Trace = trace
	}
	return ctx
}

// Rounds returns the number of questions of a call so far. The caller passes it to End later.
func (t Pipelines) Rounds(record func() *call.Call) int {
	if t.Tracer == nil {
		return 0
	}
	return len(record().Rounds)
}

// End ends the trace of a pipeline run. rounds is the number of questions when the pipeline run began. If there are more now, a question
// ended the pipeline run. End then reports the call as suspended, even if the question was answered meanwhile.
func (t Pipelines) End(ctx context.Context, record func() *call.Call, rounds int) {
	if t.Tracer == nil {
		return
	}
	c := record()
	if len(c.Rounds) > rounds {
		asked := *c
		asked.Status, asked.Result, asked.Rounds = call.Suspended, nil, c.Rounds[:rounds+1]
		c = &asked
	}
	t.Tracer.End(ctx, c)
}
