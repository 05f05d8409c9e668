package lifecycle

import (
	"context"

	"github.com/toold-dev/toold/call"
)

// A Tracer follows the pipeline runs of calls: from the start of a call, or from a decision, to its end or to a question. Its
// methods are called concurrently and must not wait for anything.
type Tracer interface {
	// Begin returns the context in which a pipeline runs, and what stands for it in the record of a call that begins: Call.Trace
	// of its later pipeline runs. request is the context of what began the pipeline run; a pipeline run that a start of the daemon takes up has
	// none.
	Begin(request context.Context, c *call.Call) (ctx context.Context, trace string)
	// End hears how the call stands when the pipeline run is over.
	End(ctx context.Context, c *call.Call)
}

// tracing traces pipeline runs. Without a tracer it does nothing.
type tracing struct{ Tracer }

// follow begins to trace a pipeline run.
func (t tracing) follow(request context.Context, c *call.Call) context.Context {
	if t.Tracer == nil {
		return context.Background()
	}
	ctx, trace := t.Tracer.Begin(context.WithoutCancel(request), c)
	if c.Status == call.New && c.Trace == "" && c.Revision == 0 { // nobody else has this record yet
		c.Trace = trace
	}
	return ctx
}

// rounds is how many questions a call has had, for followed.
func (t tracing) rounds(l *activeCall) int {
	if t.Tracer == nil {
		return 0
	}
	return len(l.record().Rounds)
}

// followed ends what follow began. A question that came since was the end of the pipeline run, whatever became of it meanwhile.
func (t tracing) followed(ctx context.Context, l *activeCall, rounds int) {
	if t.Tracer == nil {
		return
	}
	c := l.record()
	if len(c.Rounds) > rounds {
		asked := *c
		asked.Status, asked.Result, asked.Rounds = call.Suspended, nil, c.Rounds[:rounds+1]
		c = &asked
	}
	t.Tracer.End(ctx, c)
}
