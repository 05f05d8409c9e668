package call

import (
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Rule is an approval that is remembered for later calls.
type Rule struct {
	ID        string `json:"rule_id"`
	Namespace string `json:"namespace"`
	Gate      string `json:"gate"`   // the gate that asked the question; the rule answers only questions of this gate
	Option    string `json:"option"` // the pattern that the gate offered
	Title     string `json:"title,omitempty"`
	// A rule applies to the calls of one caller, on behalf of the same user, to one tool with the same definition.
	Tool       string `json:"tool"`
	ToolDigest string `json:"tool_digest"`
	Principal  string `json:"principal"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`

	Scope   tool.Scope `json:"scope"`
	ScopeID string     `json:"scope_id,omitempty"` // id of the run or thread

	By         tool.Principal `json:"by"`                  // the approver
	Approvers  []string       `json:"approvers,omitempty"` // Roles that the question named. Empty means any approver.
	Groups     []string       `json:"groups,omitempty"`    // Groups that the question named. Empty means all groups.
	CallID     string         `json:"call_id"`
	DecisionID string         `json:"decision_id"`
	Created    Stamp          `json:"created"`
	Until      Stamp          `json:"until"`
	Revoked    *Revocation    `json:"revoked,omitempty"`
}

// Asked returns the approvers of the question whose approval the rule remembers.
func (r *Rule) Asked() *tool.Approvers { return &tool.Approvers{Roles: r.Approvers, Groups: r.Groups} }

// A Revocation ends a rule before it expires.
type Revocation struct {
	By   tool.Principal `json:"by"`
	Time time.Time      `json:"time"`
}

// A RuleQuery selects the remembered answers that may apply to a call.
type RuleQuery struct {
	Gate                  string // the gate that asks
	Namespace             string
	Principal, OnBehalfOf string
	Run, Thread           string
	Tool, ToolDigest      string
}
