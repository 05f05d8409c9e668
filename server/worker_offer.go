package server

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
)

// toOffer reads what a worker says of itself, and which of its tools cannot be read.
func toOffer(r *tooldv1.WorkerRegister) (*WorkerOffer, []WorkerRefusal, error) {
	o := &WorkerOffer{
		Pool: r.GetPool(), Name: r.GetName(), Version: r.GetVersion(), Labels: r.GetLabels(), Limit: int(r.GetMaxCalls()), Held: r.GetHeld(),
		Previous: r.GetPrevious(),
	}
	var refused []WorkerRefusal
	for _, t := range r.GetTools() {
		d, err := toDescriptor(t.GetDescriptor_())
		one := WorkerTool{Descriptor: d}
		for _, k := range t.GetAnswers() {
			switch k {
			case tooldv1.WorkKind_WORK_KIND_EXECUTE:
			case tooldv1.WorkKind_WORK_KIND_RECONCILE:
				one.Reconciles = true
			case tooldv1.WorkKind_WORK_KIND_ABANDON:
				one.Abandons = true
			case tooldv1.WorkKind_WORK_KIND_POLL:
				one.Polls = true
			default:
				err = fmt.Errorf("answers: this daemon does not know %s", k)
			}
		}
		for _, k := range t.GetQuestions() {
			one.Validates = one.Validates || k == tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_VALIDATE
			one.Assesses = one.Assesses || k == tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_ASSESS
			one.Describes = one.Describes || k == tooldv1.WorkerQuestionKind_WORKER_QUESTION_KIND_DESCRIBE
		}
		for _, k := range t.GetDocuments() {
			one.Documents = append(one.Documents, tool.Document{Scope: tool.Scope(word(k.GetScope(), "DOCUMENT_SCOPE_")), Key: k.GetKey()})
		}
		if err != nil {
			refused = append(refused, WorkerRefusal{clip(t.GetDescriptor_().GetId(), 64), "INVALID", err.Error()})
			continue
		}
		o.Tools = append(o.Tools, one)
	}
	if len(o.Tools) == 0 && len(refused) > 0 {
		return nil, nil, call.InvalidField("register.tools", "%s: %s", refused[0].Tool, refused[0].Message)
	}
	return o, refused, nil
}

// toDescriptor reads a definition. What the registry checks is not checked here.
func toDescriptor(d *tooldv1.Descriptor) (tool.Descriptor, error) {
	out := tool.Descriptor{
		ID: d.GetId(), DisplayName: d.GetDisplayName(), Description: d.GetDescription(), Category: d.GetCategory(),
		Parameters: rawJSON(d.GetParameters()), ResultSchema: rawJSON(d.GetResultSchema()), Effects: toEffects(d.GetEffects()),
		Idempotent: d.GetIdempotent(), MaxArguments: int(d.GetMaxArguments()), OutputBudget: int(d.GetOutputBudget()),
		RequiredIsolation: tool.Isolation(map[string]string{"NONE": "none", "FULL": "full"}[word(d.GetRequiredIsolation(), "ISOLATION_LEVEL_")]),
		RequiredSecrets:   d.GetRequiredSecrets(), Guidance: d.GetGuidance(), Annotations: d.GetAnnotations(), Aliases: d.GetAliases(),
		Version: d.GetVersion(), Metadata: d.GetMetadata(),
	}
	if m := d.GetMildest(); m != nil {
		mildest := toEffects(m)
		out.Mildest = &mildest
	}
	if d.GetOnDoubt() == tooldv1.OnDoubt_ON_DOUBT_ASK {
		out.OnDoubt = tool.OnDoubtAsk
	}
	for _, t := range []struct {
		from *durationpb.Duration
		to   *time.Duration
	}{{d.GetTimeouts().GetQueue(), &out.Timeouts.Queue}, {d.GetTimeouts().GetAttempt(), &out.Timeouts.Attempt}} {
		if t.from == nil {
			continue
		}
		if *t.to = t.from.AsDuration(); t.from.CheckValid() != nil || *t.to <= 0 {
			return out, fmt.Errorf("timeouts: want durations of more than 0, or none")
		}
	}
	for _, text := range []json.RawMessage{out.Parameters, out.ResultSchema} {
		if len(text) > 0 && !json.Valid(text) {
			return out, fmt.Errorf("parameters and result_schema are JSON Schemas")
		}
	}
	return out, nil
}

// toEffects leaves to the defaults what is not said.
func toEffects(a *tooldv1.Assessment) tool.Effects {
	return tool.Effects{
		Mutability: tool.Mutability(word(a.GetMutability(), "MUTABILITY_")), Safety: tool.Safety(word(a.GetSafety(), "SAFETY_")),
		Tier: tool.Tier(word(a.GetTier(), "TIER_")), ConcurrencySafe: a.GetConcurrencySafe(), OpenWorld: a.GetOpenWorld(),
	}
}

func rawJSON(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func fromWorkerAccepted(a *WorkerAccepted) *tooldv1.ConnectResponse {
	slices.SortStableFunc(a.Refused, func(a, b WorkerRefusal) int { return cmp.Compare(a.Tool, b.Tool) })
	return &tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Registered{Registered: &tooldv1.WorkerRegistered{
		WorkerId: a.ID, Lease: durationpb.New(a.Lease), Kept: a.Kept, Input: true, StoreId: a.StoreID, Epoch: a.Epoch,
		Refused: each(a.Refused, func(r *WorkerRefusal) *tooldv1.WorkerRefusal {
			return &tooldv1.WorkerRefusal{Tool: r.Tool, Reason: r.Reason, Message: clip(r.Message, maxStatus)}
		}),
	}}}
}

func fromWorkerCall(c *tool.Call, documents []tool.Document) *tooldv1.WorkerCall {
	out := &tooldv1.WorkerCall{
		Tool: c.Tool, Arguments: c.Arguments.Text(), CallId: c.ID, Namespace: c.Namespace, Caller: fromPrincipal(&c.Caller), ModelCallId: c.ModelCallID,
		Run: fromRunOf(&call.Call{Run: c.Run, OnBehalfOf: c.OnBehalfOf}), Attempt: int32(c.Attempt), Deadline: fromTime(c.Deadline),
		IdempotencyKey: c.IdempotencyKey(), Checkpoint: c.Checkpoint,
		Documents: each(documents, func(d *tool.Document) *tooldv1.HookDocument {
			return &tooldv1.HookDocument{Scope: fromScope(d.Scope), Key: d.Key, Value: d.Value, Revision: d.Revision}
		}),
	}
	if c.Operation != nil {
		out.OperationId = c.Operation.ID
	}
	if r := c.Resume; r != nil {
		out.Resume = &tooldv1.WorkerResume{
			SuspensionId: r.SuspensionID, Reason: r.Reason, Round: int32(r.Round), Result: r.Result, Decision: fromDecision(&r.Decision, nil), Basis: r.Basis,
		}
	}
	return out
}
