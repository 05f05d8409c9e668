package call

import (
	"encoding/json"

	"github.com/toold-dev/toold/tool"
)

// A Suspension is a round of waiting, with its stored question.
type Suspension struct {
	ID     string `json:"suspension_id"` // unguessable, new for each round
	Round  int    `json:"round"`         // from 1
	Origin string `json:"origin"`        // the hook that suspended the call, or one of the constants below

	Action          string                `json:"action"`
	Message         string                `json:"message,omitempty"`
	Parameters      json.RawMessage       `json:"parameters,omitempty"`
	ResponseSchema  json.RawMessage       `json:"response_schema,omitempty"`
	ResumeMode      tool.ResumeMode       `json:"resume_mode"`
	Approvers       *tool.Approvers       `json:"approvers,omitempty"`
	RememberOptions []tool.RememberOption `json:"remember_options,omitempty"`
	DefaultResult   string                `json:"default_result,omitempty"`

	Pending     Pending          `json:"pending"`
	Digest      string           `json:"digest"`                   // digest of the call as the approver sees it
	Policy      string           `json:"policy_version,omitempty"` // policy version of the gate that suspended the call
	Rule        string           `json:"rule,omitempty"`           // name of the gate's rule that asks; may be empty
	Reason      string           `json:"reason,omitempty"`         // reason that the rule gives to people; may be empty
	Description tool.Description `json:"description,omitzero"`
	Created     Stamp            `json:"created"`
	ExpiresAt   Stamp            `json:"expires_at"`
}

// The origins of suspensions without a hook. No hook may have these names.
const (
	OriginTool  = "tool"     // The tool asked the question.
	OriginDoubt = "in_doubt" // The end of an attempt was not observed.
)

// Pending is the suspended call as a frontend shows it.
type Pending struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// AfterGates reports whether the question was asked after the gates had allowed the call.
func (s *Suspension) AfterGates() bool { return s.Origin == OriginTool || s.Origin == OriginDoubt }

// OnExpiry returns what happens when the suspension expires: "CANCEL", or "DEFAULT" when the tool gave a default answer.
func (s *Suspension) OnExpiry() string {
	if s.DefaultResult != "" {
		return "DEFAULT"
	}
	return "CANCEL"
}
