package service

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toold-dev/toold/call"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
	"github.com/toold-dev/toold/translate"
)

// toOffer translates the registration of a worker. It also returns the tools that are invalid.
func toOffer(r *tooldv1.WorkerRegister) (*link.Offer, []link.Refusal, error) {
	o := &link.Offer{
		Pool: r.GetPool(), Name: r.GetName(), Version: r.GetVersion(), Labels: r.GetLabels(), Limit: int(r.GetMaxCalls()), Held: r.GetHeld(),
		Previous: r.GetPrevious(),
	}
	var refused []link.Refusal
	for _, t := range r.GetTools() {
		d, err := translate.ToDescriptor(t.GetDescriptor_())
		one := link.Tool{Descriptor: d}
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
			one.Documents = append(one.Documents, link.DocumentKey{Scope: tool.Scope(translate.Word(k.GetScope(), "DOCUMENT_SCOPE_")), Key: k.GetKey()})
		}
		if err != nil {
			refused = append(refused, link.Refusal{Tool: clip(t.GetDescriptor_().GetId(), 64), Reason: link.Invalid, Message: err.Error()})
			continue
		}
		o.Tools = append(o.Tools, one)
	}
	if len(o.Tools) == 0 && len(refused) > 0 {
		return nil, nil, call.InvalidField("register.tools", "%s: %s", refused[0].Tool, refused[0].Message)
	}
	return o, refused, nil
}

func fromWorkerAccepted(a *link.Accepted) *tooldv1.ConnectResponse {
	slices.SortStableFunc(a.Refused, func(a, b link.Refusal) int { return cmp.Compare(a.Tool, b.Tool) })
	return &tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Registered{Registered: &tooldv1.WorkerRegistered{
		WorkerId: a.ID, Lease: durationpb.New(a.Lease), Kept: a.Kept, Input: true, StoreId: a.StoreID, Epoch: a.Epoch,
		Refused: translate.Each(a.Refused, func(r *link.Refusal) *tooldv1.WorkerRefusal {
			return &tooldv1.WorkerRefusal{Tool: r.Tool, Reason: r.Reason, Message: clip(r.Message, maxStatus)}
		}),
	}}}
}
