package call

import (
	"encoding/json"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Suspension is a round of waiting: the stored question.
type Suspension struct {
	ID     string `json:"suspension_id"` // unguessable, new for each round
	Round  int    `json:"round"`         // from 1
	Origin string `json:"origin"`        // the hook that asked, or one of the constants below

	Action          string                `json:"action"`
	Message         string                `json:"message,omitempty"`
	Parameters      json.RawMessage       `json:"parameters,omitempty"`
	ResponseSchema  json.RawMessage       `json:"response_schema,omitempty"`
	ResumeMode      tool.ResumeMode       `json:"resume_mode"`
	Approvers       *tool.Approvers       `json:"approvers,omitempty"`
	RememberOptions []tool.RememberOption `json:"remember_options,omitempty"`
	DefaultResult   string                `json:"default_result,omitempty"`

	Pending     Pending          `json:"pending"`
	Digest      string           `json:"digest"`                   // of the call as it was shown
	Policy      string           `json:"policy_version,omitempty"` // of the gate that asked
	Description tool.Description `json:"description,omitzero"`
	Created     time.Time        `json:"created"`
	ExpiresAt   time.Time        `json:"expires_at"`
}

// The origins of questions that no hook asked. No hook may have these names.
const (
	OriginTool  = "tool"     // the tool asked
	OriginDoubt = "in_doubt" // nobody saw the end of an attempt
)

// Pending is the call that waits, as a frontend shows it.
type Pending struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// AfterGates reports whether a question came up after the gates had allowed the call.
func (s *Suspension) AfterGates() bool { return s.Origin == OriginTool || s.Origin == OriginDoubt }

// OnExpiry returns what happens when nobody answers: "CANCEL", or "DEFAULT" when the tool named a default answer.
func (s *Suspension) OnExpiry() string {
	if s.DefaultResult != "" {
		return "DEFAULT"
	}
	return "CANCEL"
}
