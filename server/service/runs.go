package service

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/server/access"
	"github.com/toold-dev/toold/translate"
)

// GetRun returns the state of a run.
func (s *calls) GetRun(ctx context.Context, req *tooldv1.GetRunRequest) (*tooldv1.GetRunResponse, error) {
	if err := translate.Required("run_id", req.GetRunId()); err != nil {
		return nil, err
	}
	p := access.From(ctx)
	r, err := s.engine.Run(ctx, p.Principal, req.GetRunId())
	if err != nil {
		return nil, err
	}
	modes, err := s.engine.ModeChoices(ctx, p.Principal, req.GetRunId(), "")
	return &tooldv1.GetRunResponse{Run: translate.FromRunSummary(r, p.Namespace), PermissionModes: modes}, err
}

// GetThread returns the state of a thread.
func (s *calls) GetThread(ctx context.Context, req *tooldv1.GetThreadRequest) (*tooldv1.GetThreadResponse, error) {
	if err := translate.Required("thread_id", req.GetThreadId()); err != nil {
		return nil, err
	}
	p := access.From(ctx)
	t, err := s.engine.Thread(ctx, p.Principal, req.GetThreadId())
	if err != nil {
		return nil, err
	}
	modes, err := s.engine.ModeChoices(ctx, p.Principal, "", req.GetThreadId())
	return &tooldv1.GetThreadResponse{Thread: translate.FromThreadSummary(t, p.Namespace), PermissionModes: modes}, err
}

// ListRuns returns a page of the runs that the principal may see.
func (s *calls) ListRuns(ctx context.Context, req *tooldv1.ListRunsRequest) (*tooldv1.ListRunsResponse, error) {
	q, err := toRunQuery(req)
	if err != nil {
		return nil, err
	}
	q.ParentRun, q.Thread = req.GetParentRunId(), req.GetThreadId()
	if err := cmp.Or(translate.Short("parent_run_id", q.ParentRun, translate.MaxRunID), translate.Short("thread_id", q.Thread, translate.MaxRunID),
		translate.Few("states", len(req.GetStates()), maxFilters)); err != nil {
		return nil, err
	}
	for _, state := range req.GetStates() {
		name, known := tooldv1.RunState_name[int32(state)]
		if !known || state == tooldv1.RunState_RUN_STATE_UNSPECIFIED {
			return nil, translate.UnknownEnum("states", int32(state))
		}
		q.States = append(q.States, call.RunState(strings.TrimPrefix(name, "RUN_STATE_")))
	}
	p := access.From(ctx)
	filter := proto.Clone(req).(*tooldv1.ListRunsRequest)
	filter.PageToken, filter.PageSize = "", 0
	bound, err := runBinding(p, filter)
	if err != nil {
		return nil, err
	}
	if q.After, err = openToken(req.GetPageToken(), bound); err != nil {
		return nil, err
	}
	runs, next, err := s.engine.Runs(ctx, p.Principal, q)
	if err != nil {
		return nil, err
	}
	resp := &tooldv1.ListRunsResponse{NextPageToken: sealToken(next, bound)}
	for _, r := range runs {
		resp.Runs = append(resp.Runs, translate.FromRunSummary(r, p.Namespace))
	}
	return resp, nil
}

// ListThreads returns a page of the threads that the principal may see.
func (s *calls) ListThreads(ctx context.Context, req *tooldv1.ListThreadsRequest) (*tooldv1.ListThreadsResponse, error) {
	q, err := toRunQuery(req)
	if err != nil {
		return nil, err
	}
	q.Waiting = req.GetWaiting()
	p := access.From(ctx)
	filter := proto.Clone(req).(*tooldv1.ListThreadsRequest)
	filter.PageToken, filter.PageSize = "", 0
	bound, err := runBinding(p, filter)
	if err != nil {
		return nil, err
	}
	if q.After, err = openToken(req.GetPageToken(), bound); err != nil {
		return nil, err
	}
	threads, next, err := s.engine.Threads(ctx, p.Principal, q)
	if err != nil {
		return nil, err
	}
	resp := &tooldv1.ListThreadsResponse{NextPageToken: sealToken(next, bound)}
	for _, t := range threads {
		resp.Threads = append(resp.Threads, translate.FromThreadSummary(t, p.Namespace))
	}
	return resp, nil
}

// A runFilter is the part of a request that lists of runs and of threads have in common.
type runFilter interface {
	GetAgentId() string
	GetCaller() string
	GetLabels() map[string]string
	GetPageSize() int32
}

// maxRuns is the largest page of runs or threads. Each entry needs several reads of the journal.
const maxRuns = 100

// toRunQuery checks and translates the filter of a list of runs or threads.
func toRunQuery(in runFilter) (*call.RunQuery, error) {
	if err := cmp.Or(
		translate.Short("agent_id", in.GetAgentId(), translate.MaxFilter), translate.Short("caller", in.GetCaller(), translate.MaxFilter),
		translate.Labels("labels", in.GetLabels()),
	); err != nil {
		return nil, err
	}
	size, err := pageSize(in.GetPageSize())
	return &call.RunQuery{Agent: in.GetAgentId(), Caller: in.GetCaller(), Labels: in.GetLabels(), Limit: min(size, maxRuns)}, err
}

// runBinding returns the binding for a page of the list that filter selects.
func runBinding(p *access.Identity, filter proto.Message) (binding, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(filter)
	return bind(string(filter.ProtoReflect().Descriptor().Name()), p.Namespace, p.Subject, strings.Join(p.Roles, ","), string(raw)), err
}
