package service

import (
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/worker/link"
	"github.com/toold-dev/toold/translate"
)

// Bounds for the argument errors that a worker reports.
const (
	maxComplaint  = 8 << 10
	maxViolations = 256
)

// toWorkerAnswer translates a worker's answer to a question. An invalid answer counts as an error.
func toWorkerAnswer(a *tooldv1.WorkerAnswer) link.Answer {
	var out link.Answer
	if e := a.GetError(); e != nil {
		out.Err = toComplaint(e)
		return out
	}
	if m := a.GetAssessment(); m != nil {
		effects := translate.ToEffects(m)
		out.Effects = &effects
	}
	if d := a.GetDescription(); d != nil {
		out.Description, out.Err = translate.ToDescription(d)
	}
	return out
}

// toComplaint translates argument errors, shortened to a length that a model can use.
func toComplaint(e *tooldv1.ToolError) error {
	out := translate.ToWorkerError(e, tool.InvalidArguments)
	out.Message, out.Reason, out.DeveloperMessage = clip(out.Message, maxComplaint), clip(out.Reason, shortText), clip(out.DeveloperMessage, maxComplaint)
	out.Violations = out.Violations[:min(len(out.Violations), maxViolations)]
	for i, v := range out.Violations {
		out.Violations[i] = tool.Violation{Field: clip(v.Field, shortText), Description: clip(v.Description, shortText)}
	}
	return out
}
