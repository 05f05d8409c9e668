package decision

import (
	"encoding/json"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// What a person may answer about an attempt in doubt. A person who declines the question gives up, too, and wishes the call to end.
const (
	Happened = "happened"  // with this data, or message
	RunAgain = "run_again" // it did not happen
	GiveUp   = "give_up"   // it stays unknown

	DoubtSchema = `{"type":"object","properties":{"outcome":{"enum":["happened","run_again","give_up"]},` +
		`"data":{"description":"the result, when it happened"},"message":{"type":"string","description":"what the model reads instead of the data"}},` +
		`"required":["outcome"],"additionalProperties":false}`
)

// A DoubtAnswer is an answer that met DoubtSchema.
type DoubtAnswer struct {
	Outcome string          `json:"outcome"`
	Data    json.RawMessage `json:"data"`
	Message string          `json:"message"`
}

// ParseDoubt reads an answer that was checked.
func ParseDoubt(result string) (a DoubtAnswer) {
	_ = json.Unmarshal([]byte(result), &a) // it met the schema
	return a
}

// Result is what the call ends with when it happened.
func (a *DoubtAnswer) Result() *tool.Result {
	return &tool.Result{Status: tool.StatusSuccess, Data: string(a.Data), Message: a.Message}
}

// checkDoubt refuses what cannot be done with an attempt in doubt.
func (k *Checker) checkDoubt(c *call.Call, d *tool.Decision) error {
	if d.Arguments != "" {
		return call.InvalidField("decision.arguments", "the attempt had its arguments; there is nothing to edit")
	}
	a := ParseDoubt(d.Result)
	def := k.Tool(c)
	switch {
	case a.Outcome == RunAgain && (def == nil || def.Digest != c.ToolDigest):
		return call.Refuse(call.FailedPrecondition, "TOOL_CHANGED", "the tool %q is not what it was; say that it happened, or give up", c.Tool)
	case a.Outcome != Happened && (len(a.Data) > 0 || a.Message != ""):
		return call.InvalidField("decision.result", "data and message are for the outcome happened")
	case a.Outcome == Happened && def != nil && def.ValidateResult(a.Result().JSON()) != nil:
		return call.InvalidField("decision.result.data", "is not what the tool's result_schema says")
	}
	return nil
}
