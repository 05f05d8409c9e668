package remote

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/outside"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// enum finds the value of a word of ours; unspecified when the API does not know it.
func enum[E ~int32, S ~string](values map[string]int32, prefix string, word S) E {
	return E(values[prefix+string(word)])
}

func each[From, To any](in []From, f func(*From) To) []To {
	if len(in) == 0 {
		return nil
	}
	out := make([]To, len(in))
	for i := range in {
		out[i] = f(&in[i])
	}
	return out
}

// input is the call as a service sees it.
func (h *Hook) input(in *hook.Input) (*tooldv1.HookInput, error) {
	out := &tooldv1.HookInput{
		Tool: in.Descriptor.ID, Arguments: in.Arguments.Text(), CallId: in.CallID, Namespace: in.Namespace, Run: runOf(in),
		Caller: principal(&in.Caller), RequestedArguments: in.Requested, Assessment: effects(in.Assessment), Descriptor_: descriptor(in),
		Attempt: int32(in.Attempt), Epoch: in.Epoch, Hook: h.cfg.Name,
		IdempotencyKey: (&tool.Call{Namespace: in.Namespace, ID: in.CallID, Arguments: in.Arguments}).IdempotencyKey(),
	}
	if in.Description.Kind != "" {
		out.Description = description(&in.Description)
	}
	found, err := outside.Documents(in, h.cfg.Documents)
	out.Documents = each(found, func(d *tool.Document) *tooldv1.HookDocument {
		return &tooldv1.HookDocument{
			Scope: enum[tooldv1.DocumentScope](tooldv1.DocumentScope_value, "DOCUMENT_SCOPE_", d.Scope), Key: d.Key, Value: d.Value, Revision: d.Revision,
		}
	})
	return out, err
}

func runOf(in *hook.Input) *tooldv1.Run {
	r := &in.Run
	out := &tooldv1.Run{
		RunId: r.ID, ThreadId: r.Thread, ParentRunId: r.ParentRun, ParentThreadId: r.ParentThread, ParentCallId: r.ParentCall,
		Origin: r.Origin, Labels: r.Labels, OnBehalfOf: in.OnBehalfOf, Mode: tooldv1.RunMode_RUN_MODE_ATTENDED,
	}
	if r.Unattended {
		out.Mode = tooldv1.RunMode_RUN_MODE_UNATTENDED
	}
	if a := &r.Agent; a.ID != "" || a.Spec != "" || len(a.Allow)+len(a.Exclude) > 0 {
		out.Agent = &tooldv1.Agent{AgentId: a.ID, Spec: a.Spec, Tools: &tooldv1.OfferedTools{Allow: a.Allow, Exclude: a.Exclude}}
	}
	return out
}

func principal(p *tool.Principal) *tooldv1.Principal {
	out := &tooldv1.Principal{Subject: p.Subject, Method: p.Method, Namespace: p.Namespace}
	for _, r := range p.Roles {
		out.Roles = append(out.Roles, enum[tooldv1.Role](tooldv1.Role_value, "ROLE_", strings.ToUpper(r)))
	}
	return out
}

func effects(e tool.Effects) *tooldv1.Assessment {
	e = e.Normal()
	return &tooldv1.Assessment{
		Mutability:      enum[tooldv1.Mutability](tooldv1.Mutability_value, "MUTABILITY_", e.Mutability),
		Safety:          enum[tooldv1.Safety](tooldv1.Safety_value, "SAFETY_", e.Safety),
		Tier:            enum[tooldv1.Tier](tooldv1.Tier_value, "TIER_", e.Tier),
		ConcurrencySafe: e.ConcurrencySafe, OpenWorld: e.OpenWorld,
	}
}

func description(d *tool.Description) *tooldv1.Description {
	return &tooldv1.Description{
		Kind: enum[tooldv1.Kind](tooldv1.Kind_value, "KIND_", d.Kind), Title: d.Title, Preview: each(d.Preview, content), Notes: d.Notes,
		Basis: d.Basis, Degraded: d.Degraded,
		Locations: each(d.Locations, func(l *tool.Location) *tooldv1.Location {
			return &tooldv1.Location{Path: l.Path, Line: int32(l.Line)}
		}),
	}
}

func content(c *tool.Content) *tooldv1.Content {
	return &tooldv1.Content{
		Type: enum[tooldv1.ContentType](tooldv1.ContentType_value, "CONTENT_TYPE_", strings.ToUpper(string(c.Type))), Text: c.Text, MimeType: c.MIMEType,
		Data: c.Data, Artifact: c.Artifact, Uri: c.URI, Name: c.Name,
	}
}

func descriptor(in *hook.Input) *tooldv1.Descriptor {
	d := in.Descriptor
	return &tooldv1.Descriptor{
		Id: d.ID, DisplayName: d.DisplayName, Description: d.Description, Category: d.Category, Parameters: string(d.Parameters),
		ResultSchema: string(d.ResultSchema), Effects: effects(d.Effects), Mildest: effects(d.MildestEffects()), Source: d.Source,
		Version: d.Version, Digest: in.ToolDigest, Guidance: d.Guidance, Aliases: d.Aliases, Idempotent: d.Idempotent,
		MaxArguments: int32(d.MaxArguments), OutputBudget: int32(d.OutputBudget), RequiredSecrets: d.RequiredSecrets, Annotations: d.Annotations,
	}
}

func decision(d *tool.Decision) *tooldv1.Decision {
	if d == nil {
		return nil
	}
	return &tooldv1.Decision{
		DecisionId: d.ID, Action: enum[tooldv1.DecisionAction](tooldv1.DecisionAction_value, "DECISION_ACTION_", d.Action), Result: d.Result,
		Arguments: d.Arguments, Reason: d.Reason, ExpectedDigest: d.ExpectedDigest, DecidedBy: principal(&d.DecidedBy), Time: when(d.Time),
		AppliesTo: d.AppliesTo, Votes: each(d.Votes, func(v *tool.Vote) *tooldv1.Vote {
			return &tooldv1.Vote{
				DecisionId: v.DecisionID, Action: enum[tooldv1.DecisionAction](tooldv1.DecisionAction_value, "DECISION_ACTION_", v.Action),
				Voter: principal(&v.Voter), Time: when(v.Time), Edited: v.Edited,
			}
		}),
	}
}

func when(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func outcome(o *hook.Outcome) *tooldv1.CallFinished {
	return &tooldv1.CallFinished{
		Status:   enum[tooldv1.CallStatus](tooldv1.CallStatus_value, "CALL_STATUS_", o.Status),
		Executed: enum[tooldv1.Executed](tooldv1.Executed_value, "EXECUTED_", o.Executed), Result: result(o.Result),
	}
}

func result(r *tool.Result) *tooldv1.ToolResult {
	out := &tooldv1.ToolResult{
		Status: enum[tooldv1.ResultStatus](tooldv1.ResultStatus_value, "RESULT_STATUS_", r.Status), Data: r.Data, Message: r.Message,
		Content: each(r.Content, content), ModelText: r.ModelText(), ToolName: r.ToolName, Duration: durationpb.New(r.Duration),
		Truncated: r.Truncated, Metadata: r.Metadata, Artifacts: each(r.Artifacts, func(a *tool.Artifact) *tooldv1.Artifact {
			return &tooldv1.Artifact{Name: a.Name, MimeType: a.MIMEType, Size: a.Size}
		}),
		DisplayPreference: enum[tooldv1.DisplayPreference](tooldv1.DisplayPreference_value, "DISPLAY_PREFERENCE_", r.Display),
	}
	if e := r.Error; e != nil {
		out.Error = &tooldv1.ToolError{
			Code: enum[tooldv1.ErrorCode](tooldv1.ErrorCode_value, "ERROR_CODE_", e.Code), Reason: e.Reason, Message: e.Message, Aborted: e.Aborted,
			Retryable: e.Retryable, DeveloperMessage: e.DeveloperMessage, TerminateRun: e.TerminateRun,
			FieldViolations: each(e.Violations, func(v *tool.Violation) *tooldv1.FieldViolation {
				return &tooldv1.FieldViolation{Field: v.Field, Description: v.Description}
			}),
		}
	}
	return out
}
