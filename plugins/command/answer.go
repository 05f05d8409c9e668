package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/hook/external"
	"github.com/toold-dev/toold/tool"
)

func protocol(format string, args ...any) error {
	return &hook.ProtocolError{Message: fmt.Sprintf(format, args...)}
}

// read decodes the JSON object that a program printed. fields lists the names that this kind of hook may use; an object with other names is
// a protocol error. No output counts as an empty object. Output that is not a JSON object is a failure of the program.
func (s *answer) read(into any, fields ...string) error {
	if len(s.object) == 0 {
		return nil
	}
	value, err := call.ParseJSON(string(s.object), 0)
	if err != nil {
		return fmt.Errorf("cannot parse its output: %w", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return errors.New("its output is not a JSON object")
	}
	for name := range object {
		if !slices.Contains(fields, name) {
			return protocol("%q is not allowed in the answer of this kind of hook", name)
		}
	}
	d := json.NewDecoder(bytes.NewReader(s.object))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return protocol("%v", err)
	}
	return nil
}

// ignoredFields contains fields of coding agents' hooks that do not affect a call.
type ignoredFields struct {
	SuppressOutput bool   `json:"suppressOutput"`
	SystemMessage  string `json:"systemMessage"`
}

// verdict is the answer of a gate. It accepts toold's field names and those of coding agents.
type verdict struct {
	Verdict string        `json:"verdict"` // allow, deny, block, ask, suspend, result
	Reason  string        `json:"reason"`
	Ticket  *ticket       `json:"ticket"` // set for the verdict suspend
	Result  *setResult    `json:"result"` // set for the verdict result
	Agent   *agentVerdict `json:"hookSpecificOutput"`

	Continue   *bool  `json:"continue"` // false blocks the run
	StopReason string `json:"stopReason"`
	ignoredFields
}

type agentVerdict struct {
	Event    string `json:"hookEventName"`
	Decision string `json:"permissionDecision"` // allow, deny, ask
	Reason   string `json:"permissionDecisionReason"`
}

type ticket struct {
	Action         string          `json:"action"`
	Message        string          `json:"message"`
	Parameters     json.RawMessage `json:"parameters"`
	ResponseSchema json.RawMessage `json:"response_schema"`
	ResumeMode     tool.ResumeMode `json:"resume_mode"`
	Approvers      *tool.Approvers `json:"approvers"`
	ExpiresIn      string          `json:"expires_in"` // for example 24h
}

type setResult struct {
	Status  tool.ResultStatus `json:"status"`
	Data    json.RawMessage   `json:"data"`
	Message string            `json:"message"`
	Error   *struct {
		Code    tool.Code `json:"code"` // empty means DENIED
		Reason  string    `json:"reason"`
		Message string    `json:"message"`
	} `json:"error"`
}

// gate converts a program's answer to a verdict. answered reports that a person has approved this hook's question about exactly this call.
func (s *answer) gate(answered bool) (hook.Verdict, error) {
	if s.refused {
		return hook.Deny(orReason(s.reason)), nil
	}
	var v verdict
	if err := s.read(&v, "verdict", "reason", "ticket", "result", "hookSpecificOutput", "continue", "stopReason", "suppressOutput", "systemMessage"); err != nil {
		return hook.Verdict{}, err
	}
	if v.Agent != nil {
		if v.Verdict != "" || v.Reason != "" {
			return hook.Verdict{}, protocol("it has both verdict and hookSpecificOutput")
		}
		if !slices.Contains([]string{"", "allow", "deny", "ask"}, v.Agent.Decision) {
			return hook.Verdict{}, protocol("permissionDecision %q", v.Agent.Decision)
		}
		v.Verdict, v.Reason = v.Agent.Decision, v.Agent.Reason
	}
	if v.Continue != nil && !*v.Continue {
		return hook.Block(orReason(v.StopReason)), nil
	}
	if v.Ticket != nil && v.Verdict != "suspend" || v.Result != nil && v.Verdict != "result" {
		return hook.Verdict{}, protocol("the verdict %q has neither ticket nor result", v.Verdict)
	}
	return v.verdict(answered)
}

func (v *verdict) verdict(answered bool) (hook.Verdict, error) {
	switch v.Verdict {
	case "", "allow":
		return hook.AllowBecause(v.Reason), nil
	case "deny":
		return hook.Deny(orReason(v.Reason)), nil
	case "block":
		return hook.Block(orReason(v.Reason)), nil
	case "ask": // "ask" is a short form of suspend: after one approval the call continues, so the program need not look at the answer.
		if answered {
			return hook.AllowBecause("answered"), nil
		}
		return hook.Suspend(tool.Ticket{Action: "approval", Message: v.Reason, Approvers: &tool.Approvers{}}), nil
	case "suspend":
		if v.Ticket == nil {
			return hook.Verdict{}, protocol("a suspend verdict requires a ticket")
		}
		return v.Ticket.suspend()
	case "result":
		if v.Result == nil {
			return hook.Verdict{}, protocol("a result verdict requires a result")
		}
		return v.Result.verdict()
	}
	return hook.Verdict{}, protocol("verdict %q", v.Verdict)
}

func (t *ticket) suspend() (hook.Verdict, error) {
	var expires time.Duration
	if t.ExpiresIn != "" {
		var err error
		if expires, err = time.ParseDuration(t.ExpiresIn); err != nil {
			return hook.Verdict{}, protocol("expires_in: %v", err)
		}
	}
	return hook.Suspend(tool.Ticket{
		Action: t.Action, Message: t.Message, Parameters: t.Parameters, ResponseSchema: t.ResponseSchema, ResumeMode: t.ResumeMode,
		Approvers: t.Approvers, ExpiresIn: expires,
	}), nil
}

func (r *setResult) verdict() (hook.Verdict, error) {
	out := &tool.Result{Status: r.Status, Data: string(r.Data), Message: r.Message}
	switch {
	case r.Status == tool.StatusSuccess && r.Error == nil:
	case r.Status == tool.StatusError && r.Error != nil:
		out.Error = &tool.Error{Code: r.Error.Code, Reason: r.Error.Reason, Message: r.Error.Message}
		if out.Error.Code == "" {
			out.Error.Code = tool.Denied
		}
		if !slices.Contains(external.ResultCodes(), out.Error.Code) {
			return hook.Verdict{}, protocol("error code %q", out.Error.Code)
		}
	default:
		return hook.Verdict{}, protocol("a result must be SUCCESS, or ERROR with an error")
	}
	return hook.SetResult(out), nil
}

func orReason(reason string) string {
	if reason == "" {
		return "no reason given"
	}
	return reason
}
