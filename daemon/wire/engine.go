package wire

import (
	"context"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/server"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// NewEngine shows an engine to the doors. heartbeat is when a stream on which nothing happens gets one; 0 is never.
func NewEngine(e *lifecycle.Engine, heartbeat time.Duration) server.Engine {
	return &engine{e, heartbeat}
}

type engine struct {
	*lifecycle.Engine // Get, Cancel, CancelAll, CancelBatch, EndRun, CursorAfter are as the doors want them
	heartbeat         time.Duration
}

// watched returns a watcher for a door, or why there is none.
func (e *engine) watched(w *lifecycle.Watcher, err error) (server.Watcher, error) {
	if err != nil {
		return nil, err
	}
	w.HeartbeatEvery = e.heartbeat
	return watcher{w}, nil
}

func (e *engine) Execute(ctx context.Context, p tool.Principal, spec call.Spec, o server.ExecuteOptions) (server.Watcher, error) {
	return e.watched(e.Engine.Execute(ctx, p, spec, lifecycle.ExecuteOptions(o)))
}

func (e *engine) ExecuteBatch(ctx context.Context, p tool.Principal, spec *call.BatchSpec, o server.ExecuteOptions) (server.Watcher, error) {
	return e.watched(e.Engine.ExecuteBatch(ctx, p, *spec, lifecycle.ExecuteOptions(o)))
}

func (e *engine) WatchBatch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (server.Watcher, error) {
	return e.watched(e.Engine.WatchBatch(ctx, p, id, cursor, follow))
}

func (e *engine) Resume(ctx context.Context, p tool.Principal, r *server.ResumeRequest) (server.Watcher, error) {
	return e.watched(e.Engine.Resume(ctx, p, lifecycle.ResumeRequest(*r)))
}

func (e *engine) Watch(ctx context.Context, p tool.Principal, id, cursor string, follow bool) (server.Watcher, error) {
	return e.watched(e.Engine.Watch(ctx, p, id, cursor, follow))
}

func (e *engine) WatchFeed(ctx context.Context, p tool.Principal, run, thread, cursor string, follow bool) (server.Watcher, error) {
	return e.watched(e.Engine.WatchFeed(ctx, p, run, thread, cursor, follow))
}

func (e *engine) List(ctx context.Context, p tool.Principal, q *server.Query) (server.Page, error) {
	page, err := e.Engine.List(ctx, p, store.Query{
		Statuses: q.Statuses, Run: q.Run, Thread: q.Thread, Batch: q.Batch, Tool: q.Tool, Action: q.Action,
		CreatedAfter: q.CreatedAfter, CreatedBefore: q.CreatedBefore, OldestFirst: q.OldestFirst, After: q.After, Limit: q.Limit,
	})
	out := server.Page{Calls: page.Calls, Next: page.Next}
	for _, key := range page.Corrupt {
		out.Broken = append(out.Broken, key.ID)
	}
	return out, err
}

func (e *engine) Release(ctx context.Context, p tool.Principal, which server.HeldSelector, end bool, reason string) (released, left int, err error) {
	return e.Engine.Release(ctx, p, lifecycle.HeldSelector(which), end, reason)
}

func (e *engine) Purge(ctx context.Context, p tool.Principal, which server.PurgeSelector) (purged, before int, err error) {
	return e.Engine.Purge(ctx, p, lifecycle.PurgeSelector(which))
}

func (e *engine) Describe(ctx context.Context, p tool.Principal, spec *call.Spec) (*server.Preview, error) {
	v, err := e.Engine.Describe(ctx, p, *spec)
	if err != nil {
		return nil, err
	}
	return &server.Preview{
		Valid: v.Valid, Error: v.Error, Effective: v.Effective, ToolDigest: v.ToolDigest, Assessment: v.Assessment,
		Description: v.Description, Verdicts: v.Verdicts, Outcome: v.Outcome, Isolation: v.Isolation,
	}, nil
}

func (e *engine) ReadArtifact(ctx context.Context, p tool.Principal, id, name string, offset int64, limit int) (server.Part, error) {
	part, err := e.Engine.ReadArtifact(ctx, p, id, name, offset, limit)
	return server.Part(part), err
}

func (e *engine) ReadLines(ctx context.Context, p tool.Principal, id, name string, first, count int64, limit int) (server.Part, error) {
	part, err := e.Engine.ReadLines(ctx, p, id, name, first, count, limit)
	return server.Part(part), err
}

func (e *engine) SearchArtifact(ctx context.Context, p tool.Principal, id, name string, q server.Search) (server.Found, error) {
	found, err := e.Engine.SearchArtifact(ctx, p, id, name, lifecycle.Search(q))
	out := server.Found{Size: found.Size, Next: found.Next, EOF: found.EOF}
	for _, m := range found.Matches {
		out.Matches = append(out.Matches, server.Match(m))
	}
	return out, err
}

func (e *engine) SendInput(ctx context.Context, p tool.Principal, id string, in server.Input) (server.InputState, error) {
	state, err := e.Engine.SendInput(ctx, p, id, lifecycle.Input(in))
	return server.InputState(state), err
}

func (e *engine) Run(ctx context.Context, p tool.Principal, id string) (*server.Run, error) {
	r, err := e.Engine.Run(ctx, p, id)
	if err != nil {
		return nil, err
	}
	return &server.Run{ID: r.ID, State: string(r.State), Reason: r.Reason, BlockedBy: r.BlockedBy, Changed: r.Changed, Mode: r.Mode, Counts: r.Counts}, nil
}

// watcher shows a watcher to a door.
type watcher struct{ *lifecycle.Watcher }

func (w watcher) Next(ctx context.Context) (server.Frame, error) {
	f, err := w.Watcher.Next(ctx)
	if err != nil {
		return server.Frame{}, err
	}
	out := server.Frame{
		CallID: f.Key.ID, Events: f.Events, Cursor: f.Cursor,
		Snapshot: f.Snapshot, CaughtUp: f.CaughtUp, Heartbeat: f.Heartbeat, Closing: f.Closing,
	}
	if f.Shared != nil {
		out.Shared = f.Shared
	}
	if f.BatchFinished != nil {
		done := server.BatchFinished(*f.BatchFinished)
		out.BatchFinished = &done
	}
	if f.Gap != nil {
		gap := server.Gap(*f.Gap)
		out.Gap = &gap
	}
	return out, nil
}
