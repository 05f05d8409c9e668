package call

import (
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Rule is a yes that is kept for later calls.
type Rule struct {
	ID        string `json:"rule_id"`
	Namespace string `json:"namespace"`
	Gate      string `json:"gate"`   // whose question it answered, and whose later ones it answers
	Option    string `json:"option"` // the pattern, as the gate offered it
	Title     string `json:"title,omitempty"`
	// A rule holds for the calls of one caller, for the same person behind it, of one tool as it was.
	Tool       string `json:"tool"`
	ToolDigest string `json:"tool_digest"`
	Principal  string `json:"principal"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`

	Scope   tool.Scope `json:"scope"`
	ScopeID string     `json:"scope_id,omitempty"` // of a run or thread

	By         tool.Principal `json:"by"`                  // the person who approved
	Approvers  []string       `json:"approvers,omitempty"` // the roles that its question asked; empty: any approver
	CallID     string         `json:"call_id"`
	DecisionID string         `json:"decision_id"`
	Created    time.Time      `json:"created"`
	Until      time.Time      `json:"until"`
	Revoked    *Revocation    `json:"revoked,omitempty"`
}

// A Revocation ends a rule before its time.
type Revocation struct {
	By   tool.Principal `json:"by"`
	Time time.Time      `json:"time"`
}
