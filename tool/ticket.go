package tool

import (
	"encoding/json"
	"slices"
	"time"
)

// A Ticket is a question that suspends a call. A tool or a gate asks it. The engine adds ids, digest, description and times.
type Ticket struct {
	Action     string          `json:"action,omitempty"`     // approval, input, auth, in_doubt or an action of the tool; empty means tool:<id>
	Message    string          `json:"message,omitempty"`    // text of the question, for people
	Parameters json.RawMessage `json:"parameters,omitempty"` // for the frontend that shows the question
	// ResponseSchema is the schema for the decision's result. An answer that violates it leaves the question open.
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	ResumeMode     ResumeMode      `json:"resume_mode,omitempty"`
	Approvers      *Approvers      `json:"approvers,omitempty"`  // nil means every principal that may act for the caller
	ExpiresIn      time.Duration   `json:"expires_in,omitempty"` // 0 means 30 days, which is also the maximum
	// DefaultResult is JSON text that becomes the answer when the ticket expires. Only a tool's own ticket without approvers may have one.
	// Every other ticket ends with a cancellation at expiry.
	DefaultResult string `json:"default_result,omitempty"`
	// RememberOptions are the patterns for which a yes may be stored, narrowest first. The engine removes the options when no answer may be
	// stored.
	RememberOptions []RememberOption `json:"remember_options,omitempty"`
}

// A RememberOption is a pattern for later calls. The gate that offers it defines what the pattern means.
type RememberOption struct {
	Option string `json:"option"`
	Title  string `json:"title,omitempty"` // text for people that says what would be allowed
}

// Remember is a request to store a yes for later calls.
type Remember struct {
	Option string    `json:"option"` // one of the ticket's options
	Scope  Scope     `json:"scope"`
	Until  time.Time `json:"until,omitzero"` // zero means 24 hours from now; at most 30 days
}

// Approvers are the principals that may answer a ticket.
type Approvers struct {
	Roles []string `json:"roles,omitempty"` // an approver must have one of these roles; an empty list means the role approver
	// Groups narrows the approvers: each must also belong to one of these groups. An empty list means the groups that the operator
	// configured for the namespace. If there are none, every principal with the role may answer.
	Groups             []string `json:"groups,omitempty"`
	DistinctFromCaller bool     `json:"distinct_from_caller,omitempty"`
	Count              int      `json:"count,omitempty"` // number of different people who must give the same positive answer; 0 means 1
	// ResultInstead gives an approver the right to send [Decision.ResultInstead]. The caller never has this right.
	ResultInstead bool `json:"result_instead,omitempty"`
}

// Admit reports whether p has one of the roles and belongs to one of the groups. An empty list of roles admits nobody; the engine fills it
// in before. Admit does not compare p with the caller.
func (a *Approvers) Admit(p Principal) bool {
	return slices.ContainsFunc(a.Roles, p.HasRole) &&
		(len(a.Groups) == 0 || slices.ContainsFunc(a.Groups, func(g string) bool { return slices.Contains(p.Groups, g) }))
}

// ResumeMode says how a decision resumes the call.
type ResumeMode string

// The modes. The empty mode means ReplayToolCall.
const (
	ReplayToolCall          ResumeMode = "REPLAY_TOOL_CALL"
	UseDecisionAsToolResult ResumeMode = "USE_DECISION_AS_TOOL_RESULT"
	PassDecisionToTool      ResumeMode = "PASS_DECISION_TO_TOOL"
)

// A Decision is the answer that ends a suspension.
type Decision struct {
	ID     string         `json:"decision_id"` // chosen by the client; a request with the same id and content returns the same outcome again
	Action DecisionAction `json:"action"`
	Result string         `json:"result,omitempty"` // JSON text
	// Arguments is JSON text that replaces the arguments of the call. Empty means that the arguments stay unchanged.
	Arguments      string `json:"arguments,omitempty"`
	Reason         string `json:"reason,omitempty"`
	ExpectedDigest string `json:"expected_digest,omitempty"`
	// Remember asks the gate to store a yes for later calls. Nil stores nothing.
	Remember *Remember `json:"remember,omitempty"`
	// ResultInstead is the answer of a person in the tool's place: the tool does not run. Nil means that the tool runs. It excludes Result,
	// Arguments and Remember.
	ResultInstead *ResultInstead `json:"result_instead,omitempty"`

	DecidedBy Principal `json:"decided_by,omitzero"` // set by the server
	Time      time.Time `json:"time,omitzero"`       // set by the store
	// AppliesTo is the digest of the question to which the decision belongs. The engine sets it.
	AppliesTo string `json:"applies_to,omitempty"`
	// Votes are the equal answers that formed the decision, including this one, when a ticket needs several. The engine sets them.
	Votes []Vote `json:"votes,omitempty"`
}

// A ResultInstead is the result that a person gives in the tool's place. At least one of its texts is set.
type ResultInstead struct {
	Data    string `json:"data,omitempty"`    // JSON text; a success must satisfy the result schema of the tool
	Message string `json:"message,omitempty"` // text that the model reads instead of Data; an error requires it
	Error   bool   `json:"error,omitempty"`   // the call ends FAILED
}

// Size returns the length of the texts in bytes; 0 for nil.
func (r *ResultInstead) Size() int {
	if r == nil {
		return 0
	}
	return len(r.Data) + len(r.Message)
}

// A Vote is one of several answers that a ticket needs.
type Vote struct {
	DecisionID string         `json:"decision_id"`
	Action     DecisionAction `json:"action"`
	Voter      Principal      `json:"voter"`
	Time       time.Time      `json:"time"`
	Edited     bool           `json:"edited,omitempty"` // the vote is for edited arguments
	// Digest is a digest of what the vote approves. Votes for the same content have the same digest.
	Digest string `json:"says,omitempty"`
}

// Voters returns the principals whose answers formed this decision.
func (d *Decision) Voters() []Principal {
	if len(d.Votes) == 0 {
		return []Principal{d.DecidedBy}
	}
	voters := make([]Principal, len(d.Votes))
	for i := range d.Votes {
		voters[i] = d.Votes[i].Voter
	}
	return voters
}

// DecisionAction is yes or no.
type DecisionAction string

// The actions. The zero action is invalid.
const (
	Resume DecisionAction = "RESUME"
	Cancel DecisionAction = "CANCEL"
)
