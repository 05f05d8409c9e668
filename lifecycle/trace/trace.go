// Package trace follows pipeline runs for operators.
package trace

import (
	"context"

	"github.com/toold-dev/toold/call"
)

// A Tracer follows the pipeline runs of calls: from the start of a call, or from a decision, to its end or to a question. Its
// methods are called concurrently and must not wait for anything.
type Tracer interface {
	// Begin returns the context in which a pipeline runs, and its name in the record of a call that begins: Call.Trace
	// of its later pipeline runs. request is the context of what began the pipeline run; a pipeline run that a start of the daemon takes up has
	// none.
	Begin(request context.Context, c *call.Call) (ctx context.Context, trace string)
	// End gets the record of the call when the pipeline run is over.
	End(ctx context.Context, c *call.Call)
}

// Pipelines traces pipeline runs. Without a tracer it does nothing, and looks at no record.
type Pipelines struct{ Tracer }

// Begin begins to trace a pipeline run.
func (t Pipelines) Begin(request context.Context, c *call.Call) context.Context {
	if t.Tracer == nil {
		return context.Background()
	}
	ctx, trace := t.Tracer.Begin(context.WithoutCancel(request), c)
	if c.Status == call.New && c.Trace == "" && c.Revision == 0 { // nobody else has this record yet
		c.Trace = trace
	}
	return ctx
}

// Rounds returns how many questions a call has had, for End.
func (t Pipelines) Rounds(record func() *call.Call) int {
	if t.Tracer == nil {
		return 0
	}
	return len(record().Rounds)
}

// End ends what Begin began. A question that came since was the end of the pipeline run, even if it is answered by now.
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
