package remote

import (
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/translate"
)

// input converts a call for a service.
func (h *Hook) input(in *hook.Input) (*tooldv1.HookInput, error) {
	out := &tooldv1.HookInput{
		Tool: in.Descriptor.ID, Arguments: in.Arguments.Text(), CallId: in.CallID, Namespace: in.Namespace, Run: translate.FromRun(&in.Run, in.OnBehalfOf),
		Caller: translate.FromPrincipal(&in.Caller), RequestedArguments: in.Requested, Assessment: translate.FromEffects(in.Assessment), Descriptor_: translate.FromDescriptor(in.Descriptor, in.ToolDigest),
		Attempt: int32(in.Attempt), Epoch: in.Epoch, Hook: h.cfg.Name,
		IdempotencyKey: (&tool.Call{Namespace: in.Namespace, ID: in.CallID, Arguments: in.Arguments}).IdempotencyKey(),
	}
	if in.Description.Kind != "" {
		out.Description = translate.FromDescription(&in.Description)
	}
	found, err := external.Documents(in, h.cfg.Documents)
	out.Documents = translate.Each(found, translate.FromHookDocument)
	return out, err
}

// outcome converts the outcome of a call for a service.
func outcome(o *hook.Outcome) *tooldv1.CallFinished {
	out := &tooldv1.CallFinished{Status: translate.FromStatus(o.Status), Executed: translate.FromExecuted(o.Executed), Result: translate.FromResult(o.Result)}
	out.Result.ModelText = o.Result.ModelText()
	return out
}
