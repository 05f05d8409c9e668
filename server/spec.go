package server

import (
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// The bounds of a request, in bytes. What is about calls and arguments the engine checks.
const (
	maxRunID     = 128
	maxModelID   = 256
	maxCallID    = 64
	maxLabel     = 256
	maxLabels    = 64
	maxAgentSpec = 64 << 10
	maxGlobs     = 256
	maxGlob      = 128
	maxReason    = 1 << 10
	maxFilter    = 256
)

// required refuses an empty field.
func required(field, value string) error {
	if value == "" {
		return call.InvalidField(field, "is required")
	}
	return nil
}

// short refuses a field that is too long.
func short(field, value string, most int) error {
	if len(value) > most {
		return call.InvalidField(field, "has %d bytes; at most %d are accepted", len(value), most)
	}
	return nil
}

// A bound is one field and how many bytes it may have.
type bound struct {
	field, value string
	most         int
}

func checkBounds(bounds ...bound) error {
	for i := range bounds {
		if b := &bounds[i]; len(b.value) > b.most {
			return short(b.field, b.value, b.most)
		}
	}
	return nil
}

// toSpec checks what an orchestrator asks for and translates it. Field names are those of the message, below `spec`.
func toSpec(p *identity, in *tooldv1.CallSpec) (spec call.Spec, err error) {
	if in == nil {
		return spec, call.InvalidField("spec", "is required")
	}
	if err := checkBounds(
		bound{"spec.model_call_id", in.GetModelCallId(), maxModelID},
		bound{"spec.retry_of", in.GetRetryOf(), maxCallID},
	); err != nil {
		return spec, err
	}
	spec = call.Spec{
		Tool: in.GetTool(), Arguments: in.GetArguments(), ID: in.GetCallId(), ModelCallID: in.GetModelCallId(), RetryOf: in.GetRetryOf(),
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
		spec.Frontend = each(in.Run.GetFrontendTools(), toFrontend)
		if spec.OnBehalfOf = in.Run.GetOnBehalfOf(); spec.OnBehalfOf != "" && p.roles&delegate == 0 {
			return spec, call.Refuse(call.PermissionDenied, "DELEGATE_REQUIRED", "acting on behalf of %q needs the role delegate", spec.OnBehalfOf)
		}
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
	d, err := toDuration("spec.linger", in.Linger)
	return &d, err
}

// toDuration checks a duration of 0 or more.
func toDuration(field string, d *durationpb.Duration) (time.Duration, error) {
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
		if *t.to, err = toDuration(t.field, t.from); err != nil {
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
		bound{"spec.run.run_id", in.GetRunId(), maxRunID},
		bound{"spec.run.thread_id", in.GetThreadId(), maxRunID},
		bound{"spec.run.parent_run_id", in.GetParentRunId(), maxRunID},
		bound{"spec.run.parent_thread_id", in.GetParentThreadId(), maxRunID},
		bound{"spec.run.parent_call_id", in.GetParentCallId(), maxCallID},
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
		return run, unknownEnum("spec.run.mode", int32(in.GetMode()))
	}
	if len(run.Labels) > maxLabels {
		return run, call.InvalidField("spec.run.labels", "has %d entries; at most %d are accepted", len(run.Labels), maxLabels)
	}
	for key, value := range run.Labels {
		if err := checkBounds(bound{"spec.run.labels", key, maxLabel}, bound{"spec.run.labels[" + key + "]", value, maxLabel}); err != nil {
			return run, err
		}
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
	err := checkBounds(bound{"spec.run.agent.agent_id", in.GetAgentId(), maxRunID}, bound{"spec.run.agent.spec", in.GetSpec(), maxAgentSpec})
	if err == nil {
		err = checkOffered("spec.run.agent.tools", in.GetTools())
	}
	return tool.Agent{ID: in.GetAgentId(), Spec: in.GetSpec(), Allow: in.GetTools().GetAllow(), Exclude: in.GetTools().GetExclude()}, err
}

// checkOffered checks the globs of an offered set.
func checkOffered(field string, in *tooldv1.OfferedTools) error {
	if n := len(in.GetAllow()) + len(in.GetExclude()); n > maxGlobs {
		return call.InvalidField(field, "has %d globs; at most %d are accepted", n, maxGlobs)
	}
	for _, list := range []struct {
		name  string
		globs []string
	}{{"allow", in.GetAllow()}, {"exclude", in.GetExclude()}} {
		for i, g := range list.globs {
			at := field + "." + list.name + "[" + strconv.Itoa(i) + "]"
			if err := short(at, g, maxGlob); err != nil {
				return err
			}
			if _, err := path.Match(g, ""); err != nil {
				return call.InvalidField(at, "is not a glob: %q", g)
			}
		}
	}
	return nil
}

func unknownEnum(field string, value int32) error {
	return call.InvalidField(field, "has the value %d, which this daemon does not know", value)
}

// inSpec gives the fields that the engine found wrong in a spec their place in the request.
func inSpec(err error) error {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) || len(refusal.Violations) != 1 || !slices.Contains([]string{"tool", "call_id", "arguments"}, refusal.Violations[0].Field) && !strings.HasPrefix(refusal.Violations[0].Field, "run.frontend_tools") {
		return err
	}
	placed := *refusal
	field := "spec." + refusal.Violations[0].Field
	placed.Violations = []tool.Violation{{Field: field, Description: refusal.Violations[0].Description}}
	placed.Message = field + ": " + refusal.Violations[0].Description
	return &placed
}

// toDecision checks the form of a decision; what it may say the engine knows.
func toDecision(in *tooldv1.Decision) (tool.Decision, error) {
	if in == nil {
		return tool.Decision{}, call.InvalidField("decision", "is required")
	}
	remember, err := toRemember(in.Remember)
	if err != nil {
		return tool.Decision{}, err
	}
	d := tool.Decision{
		Remember: remember,
		ID:       in.GetDecisionId(), Result: in.GetResult(), Arguments: in.GetArguments(), Reason: in.GetReason(), ExpectedDigest: in.GetExpectedDigest(),
	}
	switch in.GetAction() {
	case tooldv1.DecisionAction_DECISION_ACTION_RESUME:
		d.Action = tool.Resume
	case tooldv1.DecisionAction_DECISION_ACTION_CANCEL:
		d.Action = tool.Cancel
	case tooldv1.DecisionAction_DECISION_ACTION_UNSPECIFIED:
		return d, call.InvalidField("decision.action", "is required: RESUME or CANCEL")
	default:
		return d, unknownEnum("decision.action", int32(in.GetAction()))
	}
	return d, checkBounds(bound{"decision.reason", d.Reason, maxReason}, bound{"decision.expected_digest", d.ExpectedDigest, maxFilter})
}

// The pages of ListCalls.
const (
	defaultPage = 50
	maxPage     = 500
)

// pageSize checks how many a page may have.
func pageSize(wish int32) (int, error) {
	switch {
	case wish < 0:
		return 0, call.InvalidField("page_size", "is %d; 0 is %d", wish, defaultPage)
	case wish == 0:
		return defaultPage, nil
	}
	return int(min(wish, maxPage)), nil
}

// toQuery checks a filter.
func toQuery(in *tooldv1.ListCallsRequest) (*call.Query, error) {
	if err := checkBounds(
		bound{"run_id", in.GetRunId(), maxRunID}, bound{"thread_id", in.GetThreadId(), maxRunID},
		bound{"tool", in.GetTool(), maxFilter}, bound{"action", in.GetAction(), maxFilter}, bound{"batch_id", in.GetBatchId(), maxCallID},
	); err != nil {
		return nil, err
	}
	q := &call.Query{
		Run: in.GetRunId(), Thread: in.GetThreadId(), Batch: in.GetBatchId(), Tool: in.GetTool(), Action: in.GetAction(),
		OldestFirst: in.GetOrder() == tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST,
	}
	if _, known := tooldv1.CallOrder_name[int32(in.GetOrder())]; !known {
		return nil, unknownEnum("order", int32(in.GetOrder()))
	}
	var err error
	if q.Limit, err = pageSize(in.GetPageSize()); err != nil {
		return nil, err
	}
	for i, st := range in.GetStatuses() {
		s, ok := toStatusOf(st)
		if !ok {
			return nil, unknownEnum("statuses["+strconv.Itoa(i)+"]", int32(st))
		}
		q.Statuses = append(q.Statuses, s)
	}
	if q.Action != "" && (len(q.Statuses) == 0 || slices.Contains(q.Statuses, call.Suspended)) {
		q.Statuses = []call.Status{call.Suspended} // no other call has an open question
	}
	if q.CreatedAfter, err = toTime("created_after", in.GetCreatedAfter()); err != nil {
		return nil, err
	}
	q.CreatedBefore, err = toTime("created_before", in.GetCreatedBefore())
	return q, err
}

func toTime(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, call.InvalidField(field, "is not a time between the years 1 and 9999")
	}
	return t.AsTime(), nil
}
