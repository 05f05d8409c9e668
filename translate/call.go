package translate

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// FromTime returns nil for the zero time.
func FromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// fromDuration returns nil for 0.
func fromDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// Each translates each element; an empty list becomes nil.
func Each[From, To any](in []From, f func(*From) To) []To {
	if len(in) == 0 {
		return nil
	}
	out := make([]To, len(in))
	for i := range in {
		out[i] = f(&in[i])
	}
	return out
}

// FromCall translates a record. The message shares its strings. encoder.call must write the same fields.
func FromCall(c *call.Call) *tooldv1.Call {
	out := &tooldv1.Call{
		CallId: c.ID, Status: FromStatus(c.Status), Executed: FromExecuted(c.Executed), Tool: c.Tool,
		RequestedArguments: c.Requested, EffectiveArguments: c.Effective,
		LastSequence: c.LastSequence, Revision: c.Revision, CreatedAt: FromTime(c.Created), EndedAt: FromTime(c.Ended), StartedAt: FromTime(c.Started),
		Namespace: c.Namespace, Caller: FromPrincipal(&c.Caller), ModelCallId: c.ModelCallID, ToolDigest: c.ToolDigest,
		Verdicts: FromVerdicts(c.Verdicts), Attempts: fromAttempts(c),
		Durability: fromClass(c.Class), Epoch: c.EpochOf(c.LastSequence), RetryOf: c.RetryOf, ModelReason: c.ModelReason,
		Detached: c.Detached, NotStored: NotStored(c), BatchId: c.BatchID, BatchPosition: int32(c.BatchPosition),
		Run: fromRunOf(c), Isolation: FromIsolation(&c.Isolation),
	}
	if c.Status.Terminal() {
		out.Result = FromResult(c.Result)
	}
	if !c.Assessment.IsZero() {
		out.Assessment = FromEffects(c.Assessment)
	}
	if c.Description.Kind != "" {
		out.Description = FromDescription(&c.Description)
	}
	fillRare(out, c)
	return out
}

// NotStored reports whether the call is not in the journal yet. It checks the status, too: when a call of a batch cannot be read, its
// record has only an id and no status.
func NotStored(c *call.Call) bool { return c.Revision == 0 && c.Status != "" }

// fillRare translates the fields that few records have.
func fillRare(out *tooldv1.Call, c *call.Call) {
	out.RewrittenBy, out.Timeouts = c.Rewriters, fromTimeouts(c.Timeouts)
	out.HookRuns = Each(c.HookRuns, fromHookRun)
	if s := c.Open(); s != nil {
		out.Suspension = FromSuspension(s)
		out.Suspension.Votes, out.Suspension.Claim = openVotes(c.LastRound()), FromClaim(c.LastRound().Claim)
	}
	if c.Cancel != nil {
		out.CancelRequest = fromCancel(c.Cancel)
	}
	if c.Purge != nil {
		out.Purge = &tooldv1.Purge{PurgedBy: FromPrincipal(&c.Purge.By), Time: FromTime(c.Purge.Time)}
	}
	for i := range c.Rounds {
		if r := &c.Rounds[i]; r.Decision != nil {
			out.Decisions = append(out.Decisions, FromDecision(r.Decision, &r.Suspension))
		}
	}
}

// fromRunOf returns nil for a call without any data about its run.
func fromRunOf(c *call.Call) *tooldv1.Run {
	r := &c.Run
	anything := r.ID + r.Thread + r.ParentRun + r.ParentThread + r.ParentCall + r.Origin + c.OnBehalfOf
	if anything == "" && !hasAgent(&r.Agent) && len(r.Labels) == 0 && !r.Unattended && c.Frontend == nil {
		return nil
	}
	out := FromRun(r, c.OnBehalfOf)
	if f := c.Frontend; f != nil {
		out.FrontendTools = []*tooldv1.FrontendTool{{
			Name: f.Name, Description: f.Description, Parameters: string(f.Parameters), ResponseSchema: string(f.ResponseSchema),
		}}
	}
	return out
}

func hasAgent(a *tool.Agent) bool {
	return a.ID != "" || a.Spec != "" || len(a.Allow)+len(a.Exclude) > 0
}

// FromRun translates the run of a call that acts for the user onBehalfOf.
func FromRun(r *tool.Run, onBehalfOf string) *tooldv1.Run {
	out := &tooldv1.Run{
		RunId: r.ID, ThreadId: r.Thread, ParentRunId: r.ParentRun, ParentThreadId: r.ParentThread, ParentCallId: r.ParentCall,
		Origin: r.Origin, Labels: r.Labels, OnBehalfOf: onBehalfOf, Mode: fromMode(r.Unattended),
	}
	if a := &r.Agent; hasAgent(a) {
		out.Agent = &tooldv1.Agent{AgentId: a.ID, Spec: a.Spec}
		if len(a.Allow)+len(a.Exclude) > 0 {
			out.Agent.Tools = &tooldv1.OfferedTools{Allow: a.Allow, Exclude: a.Exclude}
		}
	}
	return out
}

func fromMode(unattended bool) tooldv1.RunMode {
	if unattended {
		return tooldv1.RunMode_RUN_MODE_UNATTENDED
	}
	return tooldv1.RunMode_RUN_MODE_ATTENDED
}

func fromTimeouts(t tool.Timeouts) *tooldv1.Timeouts {
	if t == (tool.Timeouts{}) {
		return nil
	}
	return &tooldv1.Timeouts{Queue: fromDuration(t.Queue), Attempt: fromDuration(t.Attempt)}
}

func FromPrincipal(p *tool.Principal) *tooldv1.Principal {
	if p.Subject == "" {
		return nil
	}
	return &tooldv1.Principal{Subject: p.Subject, Method: p.Method, Namespace: p.Namespace, Roles: fromRoles(p.Roles), Groups: p.Groups}
}

func fromRoles(names []string) []tooldv1.Role {
	return Each(names, func(name *string) tooldv1.Role { return fromRole(*name) })
}

func FromEffects(e tool.Effects) *tooldv1.Assessment {
	e = e.Normal()
	return &tooldv1.Assessment{
		Mutability: fromMutability(e.Mutability), Safety: fromSafety(e.Safety), Tier: fromTier(e.Tier),
		ConcurrencySafe: e.ConcurrencySafe, OpenWorld: e.OpenWorld, Resources: Each(e.Resources, fromResource),
	}
}

func fromResource(r *tool.Resource) *tooldv1.Resource {
	return &tooldv1.Resource{Kind: r.Kind, Id: r.ID, Shared: r.Shared}
}

func FromDescription(d *tool.Description) *tooldv1.Description {
	return &tooldv1.Description{
		Kind: fromKind(d.Kind), Title: d.Title, Preview: Each(d.Preview, FromContent), Notes: d.Notes, Basis: d.Basis, Degraded: d.Degraded,
		Locations: Each(d.Locations, func(l *tool.Location) *tooldv1.Location {
			return &tooldv1.Location{Path: l.Path, Line: int32(l.Line)}
		}),
		Command: Each(d.Command, func(p *tool.CommandPart) *tooldv1.CommandPart {
			return &tooldv1.CommandPart{Text: p.Text, Safety: fromSafety(p.Safety), Reason: p.Reason, Unknown: p.Unknown}
		}),
	}
}

func FromContent(c *tool.Content) *tooldv1.Content {
	return &tooldv1.Content{
		Type: fromContentType(c.Type), Text: c.Text, MimeType: c.MIMEType, Data: c.Data, Artifact: c.Artifact, Uri: c.URI, Name: c.Name,
	}
}

func FromVerdicts(in []call.GateVerdict) []*tooldv1.Verdict { return Each(in, fromVerdict) }

func fromVerdict(v *call.GateVerdict) *tooldv1.Verdict {
	return &tooldv1.Verdict{Gate: v.Gate, Action: FromVerdictKind(v.Kind), Reason: v.Reason, Overruled: v.Overruled, Answered: v.Answered, Rule: v.Rule,
		Time: FromTime(v.Asked), Duration: fromDuration(v.Took)}
}

func fromHookRun(r *call.HookRun) *tooldv1.HookRun {
	return &tooldv1.HookRun{Kind: fromHookKind(r.Kind), Hook: r.Hook, Time: FromTime(r.Asked), Duration: fromDuration(r.Took), Failed: r.Failed}
}

func fromAttempts(c *call.Call) []*tooldv1.Attempt {
	out := Each(c.Attempts, fromAttempt)
	for i := range out {
		out[i].End = fromAttemptEnd(c.AttemptEnd(i))
	}
	return out
}

func fromAttempt(a *call.Attempt) *tooldv1.Attempt {
	out := &tooldv1.Attempt{
		Attempt: int32(a.Number), Epoch: a.Epoch, StartedAt: FromTime(a.Started), EndedAt: FromTime(a.Ended),
	}
	if o := a.Operation; o != nil {
		out.Operation = &tooldv1.Operation{OperationId: o.ID, ExpiresAt: FromTime(o.Expires.Time())}
	}
	return out
}

func fromCancel(r *call.CancelRequest) *tooldv1.CancelRequest {
	return &tooldv1.CancelRequest{Reason: r.Reason, RequestedBy: FromPrincipal(&r.By), Time: FromTime(r.Time), Cause: r.Cause}
}

func FromIsolation(i *call.Isolation) *tooldv1.Isolation {
	out := &tooldv1.Isolation{Required: fromLevel(i.Required), Network: fromNetwork(i.Network)}
	block := make([]tooldv1.IsolationFact, len(i.Facts))
	out.Facts = make([]*tooldv1.IsolationFact, len(i.Facts))
	for n := range i.Facts {
		block[n].Name, block[n].Held = i.Facts[n].Name, i.Facts[n].Held
		out.Facts[n] = &block[n]
	}
	return out
}
