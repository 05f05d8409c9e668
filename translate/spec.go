package translate

import (
	"encoding/json"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// ToSpec checks the request for a call and translates it. Refusals name fields below `spec`.
func ToSpec(in *tooldv1.CallSpec) (spec call.Spec, err error) {
	if in == nil {
		return spec, call.InvalidField("spec", "is required")
	}
	if err := checkBounds(
		bound{"spec.model_call_id", in.GetModelCallId(), call.MaxModelIDs},
		bound{"spec.retry_of", in.GetRetryOf(), MaxCallID},
		bound{"spec.model_reason", in.GetModelReason(), maxModelReason},
	); err != nil {
		return spec, err
	}
	spec = call.Spec{
		Tool: in.GetTool(), Arguments: in.GetArguments(), ID: in.GetCallId(), ModelCallID: in.GetModelCallId(), RetryOf: in.GetRetryOf(), ModelReason: in.GetModelReason(),
	}
	if in.Linger != nil || in.LingerNever {
		if spec.Linger, err = toLinger(in); err != nil {
			return spec, err
		}
	}
	if in.Timeouts != nil {
		if spec.Timeouts, err = toTimeouts(in.Timeouts); err != nil {
			return spec, err
		}
	}
	if in.Run != nil {
		if spec.Run, err = toRun(in.Run); err != nil {
			return spec, err
		}
		spec.Frontend = Each(in.Run.GetFrontendTools(), toFrontend)
		spec.OnBehalfOf = in.Run.GetOnBehalfOf()
	}
	return spec, nil
}

func toLinger(in *tooldv1.CallSpec) (*time.Duration, error) {
	never := time.Duration(-1)
	switch {
	case in.Linger == nil:
		return &never, nil
	case in.LingerNever:
		return nil, call.InvalidField("spec.linger", "excludes linger_never; send one of the two")
	}
	d, err := ToDuration("spec.linger", in.Linger)
	return &d, err
}

// ToDuration checks a duration of 0 or more.
func ToDuration(field string, d *durationpb.Duration) (time.Duration, error) {
	if err := d.CheckValid(); err != nil || d.AsDuration() < 0 {
		return 0, call.InvalidField(field, "must be a duration of 0 or more")
	}
	return d.AsDuration(), nil
}

func toTimeouts(in *tooldv1.Timeouts) (out tool.Timeouts, err error) {
	for _, t := range []struct {
		field string
		from  *durationpb.Duration
		to    *time.Duration
	}{{"spec.timeouts.queue", in.Queue, &out.Queue}, {"spec.timeouts.attempt", in.Attempt, &out.Attempt}} {
		if t.from == nil {
			continue
		}
		if *t.to, err = ToDuration(t.field, t.from); err != nil {
			return out, err
		}
		if *t.to == 0 {
			return out, call.InvalidField(t.field, "must be more than 0; leave it out for the default")
		}
	}
	return out, nil
}

func toRun(in *tooldv1.Run) (tool.Run, error) {
	if err := checkBounds(
		bound{"spec.run.run_id", in.GetRunId(), MaxRunID},
		bound{"spec.run.thread_id", in.GetThreadId(), MaxRunID},
		bound{"spec.run.parent_run_id", in.GetParentRunId(), MaxRunID},
		bound{"spec.run.parent_thread_id", in.GetParentThreadId(), MaxRunID},
		bound{"spec.run.parent_call_id", in.GetParentCallId(), MaxCallID},
		bound{"spec.run.origin", in.GetOrigin(), maxLabel},
		bound{"spec.run.on_behalf_of", in.GetOnBehalfOf(), maxLabel},
	); err != nil {
		return tool.Run{}, err
	}
	run := tool.Run{
		ID: in.GetRunId(), Thread: in.GetThreadId(), ParentRun: in.GetParentRunId(), ParentThread: in.GetParentThreadId(),
		ParentCall: in.GetParentCallId(), Origin: in.GetOrigin(), Labels: in.GetLabels(),
	}
	switch in.GetMode() {
	case tooldv1.RunMode_RUN_MODE_UNSPECIFIED, tooldv1.RunMode_RUN_MODE_ATTENDED:
	case tooldv1.RunMode_RUN_MODE_UNATTENDED:
		run.Unattended = true
	default:
		return run, UnknownEnum("spec.run.mode", int32(in.GetMode()))
	}
	if err := Labels("spec.run.labels", run.Labels); err != nil {
		return run, err
	}
	var err error
	if in.Agent != nil {
		run.Agent, err = toAgent(in.Agent)
	}
	return run, err
}

// toFrontend translates a declaration, which the engine checks.
func toFrontend(in **tooldv1.FrontendTool) tool.FrontendTool {
	f := *in
	return tool.FrontendTool{
		Name: f.GetName(), Description: f.GetDescription(),
		Parameters: json.RawMessage(f.GetParameters()), ResponseSchema: json.RawMessage(f.GetResponseSchema()),
	}
}

func toAgent(in *tooldv1.Agent) (tool.Agent, error) {
	err := checkBounds(bound{"spec.run.agent.agent_id", in.GetAgentId(), MaxRunID}, bound{"spec.run.agent.spec", in.GetSpec(), maxAgentSpec})
	if err == nil {
		err = CheckOffered("spec.run.agent.tools", in.GetTools())
	}
	return tool.Agent{ID: in.GetAgentId(), Spec: in.GetSpec(), Allow: in.GetTools().GetAllow(), Exclude: in.GetTools().GetExclude()}, err
}

// CheckOffered checks the globs that select the offered tools.
func CheckOffered(field string, in *tooldv1.OfferedTools) error {
	if n := len(in.GetAllow()) + len(in.GetExclude()); n > maxGlobs {
		return call.InvalidField(field, "has %d globs; at most %d are accepted", n, maxGlobs)
	}
	for _, list := range []struct {
		name  string
		globs []string
	}{{"allow", in.GetAllow()}, {"exclude", in.GetExclude()}} {
		for i, g := range list.globs {
			at := field + "." + list.name + "[" + strconv.Itoa(i) + "]"
			if err := Short(at, g, maxGlob); err != nil {
				return err
			}
			if !tool.ValidGlob(g) {
				return call.InvalidField(at, "is not a glob: %q", g)
			}
		}
	}
	return nil
}

// ToDecision checks the form of a decision; the engine checks its content.
func ToDecision(in *tooldv1.Decision) (tool.Decision, error) {
	if in == nil {
		return tool.Decision{}, call.InvalidField("decision", "is required")
	}
	remember, err := ToRemember(in.Remember)
	if err != nil {
		return tool.Decision{}, err
	}
	d := tool.Decision{
		Remember: remember,
		ID:       in.GetDecisionId(), Result: in.GetResult(), Arguments: in.GetArguments(), Reason: in.GetReason(), ExpectedDigest: in.GetExpectedDigest(),
	}
	if r := in.GetResultInstead(); r != nil {
		d.ResultInstead = &tool.ResultInstead{Data: r.GetData(), Message: r.GetMessage(), Error: r.GetError()}
	}
	switch in.GetAction() {
	case tooldv1.DecisionAction_DECISION_ACTION_RESUME:
		d.Action = tool.Resume
	case tooldv1.DecisionAction_DECISION_ACTION_CANCEL:
		d.Action = tool.Cancel
	case tooldv1.DecisionAction_DECISION_ACTION_UNSPECIFIED:
		return d, call.InvalidField("decision.action", "is required: RESUME or CANCEL")
	default:
		return d, UnknownEnum("decision.action", int32(in.GetAction()))
	}
	return d, checkBounds(bound{"decision.reason", d.Reason, MaxReason}, bound{"decision.expected_digest", d.ExpectedDigest, MaxFilter})
}
