package service

import (
	"context"
	"errors"
	"slices"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// GetCall returns the record of a call.
func (s *calls) GetCall(ctx context.Context, req *tooldv1.GetCallRequest) (*tooldv1.GetCallResponse, error) {
	if err := translate.Required("call_id", req.GetCallId()); err != nil {
		return nil, err
	}
	mask, err := newMask(req.GetReadMask())
	if err != nil {
		return nil, err
	}
	c, err := s.engine.Get(ctx, access.From(ctx).Principal, req.GetCallId())
	if err != nil {
		return nil, err
	}
	return &tooldv1.GetCallResponse{Call: mask.record(c), Cursor: s.engine.CursorAfter(c.LastSequence)}, nil
}

// ListCalls returns a page of the calls that the principal may see.
func (s *calls) ListCalls(ctx context.Context, req *tooldv1.ListCallsRequest) (*tooldv1.ListCallsResponse, error) {
	p := access.From(ctx)
	mask, err := newMask(req.GetReadMask())
	if err != nil {
		return nil, err
	}
	q, err := toQuery(req)
	if err != nil {
		return nil, err
	}
	bound, err := listBinding(p, req)
	if err != nil {
		return nil, err
	}
	if err := openPosition(req.GetPageToken(), q, bound); err != nil {
		return nil, err
	}
	resp := &tooldv1.ListCallsResponse{}
	if s.onlyOf(p, q, req.GetSource()); req.GetSource() != "" && len(q.Tools) == 0 {
		return resp, nil
	}
	if err := s.fill(ctx, resp, q, mask); err != nil {
		return nil, err
	}
	resp.NextPageToken = sealPosition(q, bound)
	return resp, nil
}

// onlyOf restricts a query to the tools of a source. The empty source means all tools.
func (s *calls) onlyOf(p *access.Identity, q *call.Query, source string) {
	if source == "" {
		return
	}
	var tools []string
	for _, d := range s.tools.List(p.Principal) {
		if id := d.Descriptor.ID; d.Descriptor.Source == source && (len(q.Tools) == 0 || slices.Contains(q.Tools, id)) {
			tools = append(tools, id)
		}
	}
	q.Tools = tools
}

// CancelCall asks a call to end.
func (s *calls) CancelCall(ctx context.Context, req *tooldv1.CancelCallRequest) (*tooldv1.CancelCallResponse, error) {
	if err := errors.Join(translate.Required("call_id", req.GetCallId()), translate.Short("reason", req.GetReason(), translate.MaxReason)); err != nil {
		return nil, err
	}
	wait, err := toWait(req.GetWait(), 0)
	if err != nil {
		return nil, err
	}
	waiting, cancel := untilDeadline(ctx)
	defer cancel()
	c, err := s.engine.Cancel(waiting, access.From(ctx).Principal, req.GetCallId(), req.GetReason(), wait)
	if err != nil {
		return nil, err
	}
	resp := &tooldv1.CancelCallResponse{Call: translate.WholeCall(c)}
	if c.Status.Terminal() && c.Result != nil && c.Result.Process != nil {
		resp.Processes = translate.FromProcesses(c.Result.Process)
	}
	return resp, nil
}

// CancelCalls asks the calls of a run, thread or batch to end.
func (s *calls) CancelCalls(ctx context.Context, req *tooldv1.CancelCallsRequest) (*tooldv1.CancelCallsResponse, error) {
	if err := errors.Join(translate.Short("reason", req.GetReason(), translate.MaxReason), translate.Short("superseded_by_run_id", req.GetSupersededByRunId(), translate.MaxRunID)); err != nil {
		return nil, err
	}
	ids, err := s.cancelMany(ctx, req)
	if err != nil {
		return nil, err
	}
	return &tooldv1.CancelCallsResponse{CallIds: ids}, nil
}

// DescribeCall returns what a call would do, or what a suspended call would do after an edit of its arguments.
func (s *calls) DescribeCall(ctx context.Context, req *tooldv1.DescribeCallRequest) (*tooldv1.DescribeCallResponse, error) {
	p := access.From(ctx)
	if req.GetSuspensionId() != "" {
		return s.describeEdit(ctx, p, req)
	}
	if req.GetArguments() != "" {
		return nil, call.InvalidField("arguments", "is only for suspension_id; want spec.arguments")
	}
	spec, err := toSpec(p, req.GetSpec())
	if err != nil {
		return nil, err
	}
	rule := access.Rule{Roles: access.Caller | access.Delegate, Reads: true}
	if err := rule.Permit(p, "DescribeCall without suspension_id"); err != nil {
		return nil, err
	}
	v, err := s.engine.Describe(ctx, p.Principal, spec)
	if err != nil {
		var refusal *call.Refusal
		if errors.As(err, &refusal) && refusal.Reason == "TOOL_NOT_FOUND" { // Return a preview instead of this error: the call would be accepted and end with the error.
			return &tooldv1.DescribeCallResponse{Error: translate.FromToolError(&tool.Error{Code: tool.NotFound, Message: refusal.Message, Aborted: true})}, nil
		}
		return nil, inSpec(err)
	}
	return fromPreview(v), nil
}

func (s *calls) describeEdit(ctx context.Context, p *access.Identity, req *tooldv1.DescribeCallRequest) (*tooldv1.DescribeCallResponse, error) {
	if err := checkSuspensionID("suspension_id", req.GetSuspensionId()); err != nil {
		return nil, err
	}
	switch {
	case req.GetSpec() != nil:
		return nil, call.InvalidField("spec", "must be absent with suspension_id")
	case req.GetArguments() == "":
		return nil, call.InvalidField("arguments", "is required with suspension_id")
	}
	v, err := s.engine.DescribeEdit(ctx, p.Principal, req.GetSuspensionId(), req.GetArguments())
	if err != nil {
		return nil, err
	}
	return fromPreview(v), nil
}

func fromPreview(v *call.Preview) *tooldv1.DescribeCallResponse {
	resp := &tooldv1.DescribeCallResponse{Valid: v.Valid, Tool: v.Tool, ToolDigest: v.ToolDigest, Digest: v.Digest}
	if !v.Valid {
		resp.Error = translate.FromToolError(v.Error)
		return resp
	}
	resp.EffectiveArguments = v.Effective
	resp.Assessment = translate.FromEffects(v.Assessment)
	resp.Description = translate.FromDescription(&v.Description)
	resp.Verdicts = translate.FromVerdicts(v.Verdicts)
	resp.Outcome = translate.FromVerdictKind(v.Outcome)
	resp.Isolation = translate.FromIsolation(&v.Isolation)
	return resp
}

// EndRun ends a run.
func (s *calls) EndRun(ctx context.Context, req *tooldv1.EndRunRequest) (*tooldv1.EndRunResponse, error) {
	if err := errors.Join(translate.Required("run_id", req.GetRunId()), translate.Short("reason", req.GetReason(), translate.MaxReason), translate.Short("superseded_by_run_id", req.GetSupersededByRunId(), translate.MaxRunID)); err != nil {
		return nil, err
	}
	p := access.From(ctx)
	ids, err := s.engine.EndRun(ctx, p.Principal, req.GetRunId(), req.GetReason(), req.GetSupersededByRunId())
	if err != nil {
		return nil, err
	}
	r, err := s.engine.Run(ctx, p.Principal, req.GetRunId())
	if err != nil {
		return nil, err
	}
	return &tooldv1.EndRunResponse{Run: translate.FromRunSummary(r, p.Namespace), CancelledCallIds: ids}, nil
}
