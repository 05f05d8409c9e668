package translate

import (
	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func FromRunSummary(r *call.RunSummary, namespace string) *tooldv1.RunSummary {
	n := func(s call.Status) int64 { return int64(r.Counts[s]) }
	out := &tooldv1.RunSummary{
		RunId: r.ID, State: fromRunState(r.State), Namespace: namespace, ChangedAt: FromTime(r.Changed), PermissionMode: r.Mode,
		Caller: r.Owner, CreatedAt: FromTime(r.First), Waits: Each(r.Waits, fromWaitingCall),
		Children: Each(r.Children, func(c *call.ChildRun) *tooldv1.ChildRun {
			return &tooldv1.ChildRun{RunId: c.ID, ParentCallId: c.ParentCall, AgentId: c.Agent}
		}),
		Calls: &tooldv1.CallCounts{
			New: n(call.New), Running: n(call.Running), Suspended: n(call.Suspended), Resuming: n(call.Resuming),
			Succeeded: n(call.Succeeded), Failed: n(call.Failed), Cancelled: n(call.Cancelled),
		},
	}
	if out.State == tooldv1.RunState_RUN_STATE_BLOCKED {
		out.BlockedReason, out.BlockedCallId = r.Reason, r.BlockedBy
	}
	if c := r.Newest; c != nil {
		out.ThreadId, out.ParentRunId, out.ParentCallId, out.OnBehalfOf = c.Run.Thread, c.Run.ParentRun, c.Run.ParentCall, c.OnBehalfOf
		out.AgentId, out.Labels, out.LastCallAt = c.Run.Agent.ID, c.Run.Labels, FromTime(c.Created)
	}
	return out
}

func FromThreadSummary(t *call.ThreadSummary, namespace string) *tooldv1.ThreadSummary {
	out := &tooldv1.ThreadSummary{
		ThreadId: t.ID, Namespace: namespace, PermissionMode: t.Mode, Caller: t.Owner, CreatedAt: FromTime(t.First), Waits: Each(t.Waits, fromWaitingCall),
	}
	if c := t.Newest; c != nil {
		out.LastRunId, out.ParentThreadId, out.OnBehalfOf = c.Run.ID, c.Run.ParentThread, c.OnBehalfOf
		out.AgentId, out.Labels, out.LastCallAt = c.Run.Agent.ID, c.Run.Labels, FromTime(c.Created)
	}
	return out
}

func fromWaitingCall(c **call.Call) *tooldv1.WaitingCall {
	s := (*c).Open()
	return &tooldv1.WaitingCall{
		CallId: (*c).ID, SuspensionId: s.ID, Tool: (*c).Tool, Action: s.Action, Title: (*c).Description.Title, Approvers: fromApprovers(s.Approvers),
		CreatedAt: FromTime(s.Created.Time()), ExpiresAt: FromTime(s.ExpiresAt.Time()),
	}
}
