package decision

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// checkInstead refuses a result in the tool's place that p may not give, or that cannot be the result of the call.
func (k *Checker) checkInstead(c *call.Call, s *call.Suspension, p tool.Principal, d *tool.Decision) error {
	if err := k.mayAnswerInstead(c, s, p); err != nil {
		return err
	}
	if d.Result != "" || d.Arguments != "" || d.Remember != nil {
		return call.InvalidField("decision.result_instead", "excludes result, arguments and remember: the tool does not run")
	}
	def := k.Tool(c)
	if def == nil {
		return toolGone(c)
	}
	return checkTexts(d.ResultInstead, def)
}

// checkTexts refuses texts that the tool def could not return.
func checkTexts(r *tool.ResultInstead, def *Tool) error {
	const data = "decision.result_instead.data"
	if r.Data != "" {
		if _, err := call.ParseJSON(r.Data, 0); err != nil {
			return call.InvalidField(data, "is not valid JSON: %s", err)
		}
	}
	switch {
	case r.Error && r.Message == "":
		return call.InvalidField("decision.result_instead.message", "is required with error: the model reads it")
	case r.Error:
		return nil
	case r.Data == "" && r.Message == "":
		return call.InvalidField("decision.result_instead", "is empty; set data or message")
	}
	err := def.ValidateResult(r.Data)
	if err == nil {
		return nil
	}
	refusal := call.Refuse(call.InvalidArgument, "ANSWER_INVALID", "the data does not satisfy the tool's result_schema; the question stays open")
	refusal.Violations = below(data, tool.AsError(err).Violations)
	return refusal
}

// below returns the violations of a value as violations of the field that contains the value.
func below(field string, violations []tool.Violation) []tool.Violation {
	out := make([]tool.Violation, len(violations))
	for i, v := range violations {
		if v.Field != "" {
			v.Field = "." + v.Field
		}
		out[i] = tool.Violation{Field: field + v.Field, Description: v.Description}
	}
	return out
}
