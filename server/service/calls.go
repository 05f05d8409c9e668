package service

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/server/turns"
	"github.com/toold-dev/toold/translate"
)

type calls struct {
	tooldv1.UnsafeCallServiceServer
	engine   Engine
	tools    Tools
	turns    *turns.Service
	policy   Policy
	watchers *watchers
	service  *Service
}

// ExecuteTool starts a call or attaches to it, and streams it.
func (s *calls) ExecuteTool(req *tooldv1.ExecuteToolRequest, stream grpc.ServerStreamingServer[tooldv1.ExecuteToolResponse]) error {
	ctx := stream.Context()
	p := access.From(ctx)
	w, err := s.startTool(ctx, p, req)
	if err != nil {
		return err
	}
	return s.pump(ctx, w, nil, func(f outgoing) error {
		if err := p.Ended(); err != nil { // see [access.Rule.Brief]
			return err
		}
		return stream.Send(&tooldv1.ExecuteToolResponse{Frame: f.Frame})
	})
}

// startTool starts a call or attaches to it.
func (s *calls) startTool(ctx context.Context, p *access.Identity, req *tooldv1.ExecuteToolRequest) (call.Stream, error) {
	spec, err := toSpec(p, req.GetSpec())
	if err != nil {
		return nil, err
	}
	w, err := s.engine.Execute(ctx, p.Principal, spec, call.ExecuteOptions{
		Cursor: req.GetCursor(), WaitForDecision: req.GetWaitForDecision(), Attended: true,
	})
	if err != nil {
		return nil, inSpec(err)
	}
	return w, nil
}

// toSpec translates the request for a call and checks that the client may act for the named user.
func toSpec(p *access.Identity, in *tooldv1.CallSpec) (call.Spec, error) {
	spec, err := translate.ToSpec(in)
	if err == nil {
		err = p.MayActFor(spec.OnBehalfOf)
	}
	return spec, err
}

// CallTool starts a call or attaches to it, and waits until the call ends or is suspended.
func (s *calls) CallTool(ctx context.Context, req *tooldv1.CallToolRequest) (*tooldv1.CallToolResponse, error) {
	p := access.From(ctx)
	wait, err := toWait(req.GetWait(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	spec, err := toSpec(p, req.GetSpec())
	if err != nil {
		return nil, err
	}
	w, err := s.engine.Execute(ctx, p.Principal, spec, call.ExecuteOptions{})
	if err != nil {
		return nil, inSpec(err)
	}
	c, err := settle(ctx, w, wait)
	if err != nil {
		return nil, err
	}
	return &tooldv1.CallToolResponse{Call: translate.WholeCall(c), Cursor: s.engine.CursorAfter(c.LastSequence)}, nil
}

// settle waits until the call has ended or is suspended, for at most d. If the call is not accepted yet, it waits longer, because the
// client does not know the call id yet.
func settle(ctx context.Context, w call.Watcher, d time.Duration) (*call.Call, error) {
	defer w.Close()
	watching, cancel := untilDeadline(ctx)
	defer cancel()
	if d < math.MaxInt64 {
		began := time.Now()
		if _, err := w.Next(watching); err != nil {
			return nil, err
		}
		d -= time.Since(began)
	}
	if d <= 0 {
		return w.Call(), nil
	}
	c, err := w.Wait(watching, d)
	if err == nil && c.LastSequence == 0 && translate.NotStored(c) {
		err = context.DeadlineExceeded
	}
	return c, err
}

// toWait checks the time that a client wants to wait. absent is the default for a request without a time.
func toWait(d *durationpb.Duration, absent time.Duration) (time.Duration, error) {
	if d == nil {
		return absent, nil
	}
	if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
		return 0, call.InvalidField("wait", "must be a duration of 0 or more")
	}
	return d.AsDuration(), nil
}

// ResumeTool applies a decision to a suspension, then streams the call.
func (s *calls) ResumeTool(req *tooldv1.ResumeToolRequest, stream grpc.ServerStreamingServer[tooldv1.ResumeToolResponse]) error {
	ctx := stream.Context()
	w, err := s.decide(ctx, access.From(ctx), req)
	if err != nil {
		return err
	}
	return s.pump(ctx, w, nil, func(f outgoing) error {
		return stream.Send(&tooldv1.ResumeToolResponse{Frame: f.Frame})
	})
}

func (s *calls) decide(ctx context.Context, p *access.Identity, req *tooldv1.ResumeToolRequest) (call.Stream, error) {
	decision, err := translate.ToDecision(req.GetDecision())
	if err != nil {
		return nil, err
	}
	return s.engine.Resume(ctx, p.Principal, call.ResumeRequest{
		SuspensionID: req.GetSuspensionId(), CallID: req.GetCallId(), Decision: decision,
		WaitForDecision: req.GetWaitForDecision(), Cursor: req.GetCursor(),
	})
}

// WatchCalls streams the events of one call or of many calls.
func (s *calls) WatchCalls(req *tooldv1.WatchCallsRequest, stream grpc.ServerStreamingServer[tooldv1.WatchCallsResponse]) error {
	ctx := stream.Context()
	w, leave, err := s.enterWatch(ctx, req)
	if err != nil {
		return err
	}
	plain := uncompressed(ctx)
	return s.pump(ctx, w, leave, func(f outgoing) error {
		if f.shared != nil && plain {
			return f.shared.sendWatch(stream)
		}
		return stream.Send(&tooldv1.WatchCallsResponse{Frame: f.Frame})
	})
}

// enterWatch starts a watch and counts it. The caller invokes leave when the watch ends.
func (s *calls) enterWatch(ctx context.Context, req *tooldv1.WatchCallsRequest) (w call.Stream, leave func(), err error) {
	if leave, err = s.watchers.acquire(access.From(ctx)); err != nil {
		return nil, nil, err
	}
	if w, err = s.watch(ctx, req); err != nil {
		leave()
		return nil, nil, err
	}
	if !req.GetFollow() {
		w = &caughtUp{Stream: w}
	}
	return w, leave, nil
}

func (s *calls) watch(ctx context.Context, req *tooldv1.WatchCallsRequest) (call.Stream, error) {
	p, cursor, follow := access.From(ctx).Principal, req.GetCursor(), req.GetFollow()
	if req.AfterSequence != nil {
		switch _, one := req.GetSelector().(*tooldv1.WatchCallsRequest_CallId); {
		case !one:
			return nil, call.InvalidField("after_sequence", "is only for a call; a batch, run, thread or namespace needs a cursor")
		case cursor != "":
			return nil, call.InvalidField("after_sequence", "excludes cursor; send one of the two")
		case req.GetAfterSequence() < 0:
			return nil, call.InvalidField("after_sequence", "is %d; 0 is the beginning", req.GetAfterSequence())
		}
		cursor = s.engine.CursorAfter(req.GetAfterSequence())
	}
	switch at := req.GetSelector().(type) {
	case *tooldv1.WatchCallsRequest_CallId:
		if at.CallId == "" {
			return nil, call.InvalidField("call_id", "is required")
		}
		return s.engine.Watch(ctx, p, at.CallId, cursor, follow)
	case *tooldv1.WatchCallsRequest_RunId:
		if at.RunId == "" {
			return nil, call.InvalidField("run_id", "is required")
		}
		return s.engine.WatchFeed(ctx, p, at.RunId, "", cursor, follow)
	case *tooldv1.WatchCallsRequest_ThreadId:
		if at.ThreadId == "" {
			return nil, call.InvalidField("thread_id", "is required")
		}
		return s.engine.WatchFeed(ctx, p, "", at.ThreadId, cursor, follow)
	case *tooldv1.WatchCallsRequest_BatchId:
		if at.BatchId == "" {
			return nil, call.InvalidField("batch_id", "is required")
		}
		return s.engine.WatchBatch(ctx, p, at.BatchId, cursor, follow)
	case *tooldv1.WatchCallsRequest_Namespace:
		if !at.Namespace {
			return nil, call.InvalidField("namespace", "must be true")
		}
		return s.engine.WatchFeed(ctx, p, "", "", cursor, follow)
	}
	return nil, call.InvalidField("selector", "name a call, a batch, a run, a thread or the namespace")
}

// caughtUp adds the frame CaughtUp at the end of a watch without follow, even if the call has ended.
type caughtUp struct {
	call.Stream
	announced bool
}

// Next implements [call.Stream].
func (w *caughtUp) Next(ctx context.Context) (call.Frame, error) {
	f, err := w.Stream.Next(ctx)
	if err == nil {
		w.announced = w.announced || f.CaughtUp || f.Closing
		return f, nil
	}
	if w.announced || !errors.Is(err, io.EOF) {
		return f, err
	}
	w.announced = true
	return call.Frame{CaughtUp: true, Cursor: w.Cursor()}, nil
}
