package decision

import (
	"encoding/json"
	"strings"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/gating"
	"github.com/toold-dev/toold/tool"
)

// The possible outcomes in an answer to a question about an attempt in doubt. Declining the question ends the call as CANCELLED. It then
// also stays unknown whether the attempt took effect.
const (
	Happened = "happened"  // The attempt took effect. The answer may contain the data or the message of its result.
	RunAgain = "run_again" // The attempt did not take effect.
	GiveUp   = "give_up"   // It stays unknown whether the attempt took effect.

	DoubtSchema = `{"type":"object","properties":{"outcome":{"enum":["happened","run_again","give_up"]},` +
		`"data":{"description":"the result, when it happened"},"message":{"type":"string","description":"what the model reads instead of the data"}},` +
		`"required":["outcome"],"additionalProperties":false}`
)

// maxAnswer is the largest number of bytes of a tool's answer in a ticket.
const maxAnswer = 1000

// DoubtTicket returns the question about an attempt in doubt. The default approvers answer it. reported is the reason why the tool could not
// report what the attempt did, or nil if the tool was not asked. key is the attempt's idempotency key. The parameters of the ticket contain
// reported and key, for the person who looks for the effect.
func DoubtTicket(title string, reported error, key string) *tool.Ticket {
	about := map[string]any{"tool_asked": reported != nil, "idempotency_key": key}
	if reported != nil {
		text := reported.Error()
		about["tool_answer"] = strings.ToValidUTF8(text[:min(len(text), maxAnswer)], "")
	}
	parameters, _ := json.Marshal(about) // There is no error with these types.
	return &tool.Ticket{
		Parameters:     parameters,
		Action:         gating.ActionDoubt,
		Message:        "The daemon ended while this ran: " + title + ". Did it happen?",
		Approvers:      &tool.Approvers{},
		ResponseSchema: json.RawMessage(DoubtSchema),
	}
}

// A DoubtAnswer is an answer that satisfies DoubtSchema.
type DoubtAnswer struct {
	Outcome string          `json:"outcome"`
	Data    json.RawMessage `json:"data"`
	Message string          `json:"message"`
}

// ParseDoubt parses an answer that was validated when it was stored.
func ParseDoubt(result string) (a DoubtAnswer) {
	_ = json.Unmarshal([]byte(result), &a) // The answer was validated, so this cannot fail.
	return a
}

// Result returns the result of a call whose attempt took effect.
func (a *DoubtAnswer) Result() *tool.Result {
	return &tool.Result{Status: tool.StatusSuccess, Data: string(a.Data), Message: a.Message}
}

// checkDoubt refuses an answer about an attempt in doubt that cannot be applied.
func (k *Checker) checkDoubt(c *call.Call, d *tool.Decision) error {
	a := ParseDoubt(d.Result)
	def := k.Tool(c)
	switch {
	case a.Outcome == RunAgain && (def == nil || def.Digest != c.ToolDigest):
		return call.Refuse(call.FailedPrecondition, "TOOL_CHANGED", "the tool %q has changed since the attempt, so it cannot run again; answer happened or give_up", c.Tool)
	case a.Outcome != Happened && (len(a.Data) > 0 || a.Message != ""):
		return call.InvalidField("decision.result", "data and message are allowed only with the outcome happened")
	case a.Outcome == Happened && def != nil && def.ValidateResult(a.Result().JSON()) != nil:
		return call.InvalidField("decision.result.data", "does not match the tool's result_schema")
	}
	return nil
}
