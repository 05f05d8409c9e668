package tool

import (
	"encoding/json"
	"time"
)

// A Ticket is the question of a suspension, as a tool or a gate asks it. The engine adds ids, digest, description and
// times.
type Ticket struct {
	Action     string          `json:"action,omitempty"`     // approval, input, auth, in_doubt or one's own; empty means tool:<id>
	Message    string          `json:"message,omitempty"`    // for people
	Parameters json.RawMessage `json:"parameters,omitempty"` // for the frontend that shows the question
	// ResponseSchema is what the decision's result must meet; an answer that does not leaves the question open.
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
	ResumeMode     ResumeMode      `json:"resume_mode,omitempty"`
	Approvers      *Approvers      `json:"approvers,omitempty"`  // nil: every principal that may act for the caller
	ExpiresIn      time.Duration   `json:"expires_in,omitempty"` // 0 means 30 days, which is also the most
	// DefaultResult, JSON text, becomes the answer at expiry. Only a tool's own ticket without approvers may have one;
	// every other ticket expires to a cancellation.
	DefaultResult string `json:"default_result,omitempty"`
	// RememberOptions are what a yes may be kept for, narrowest first. The engine drops them where no answer may be kept.
	RememberOptions []RememberOption `json:"remember_options,omitempty"`
}

// A RememberOption is a pattern of later calls; what it means the gate knows that offers it.
type RememberOption struct {
	Option string `json:"option"`
	Title  string `json:"title,omitempty"` // for people: what would be allowed
}

// Remember asks to keep a yes for later calls.
type Remember struct {
	Option string    `json:"option"` // one of the ticket's
	Scope  Scope     `json:"scope"`
	Until  time.Time `json:"until,omitzero"` // zero is 24 hours from now; at most 30 days
}

// Approvers are the principals that may answer a ticket.
type Approvers struct {
	Roles              []string `json:"roles,omitempty"` // any of them; empty means approver
	DistinctFromCaller bool     `json:"distinct_from_caller,omitempty"`
	Count              int      `json:"count,omitempty"` // how many different people must say the same yes; 0 and 1 mean one
}

// ResumeMode says what a decision does.
type ResumeMode string

// The empty mode is ReplayToolCall.
const (
	ReplayToolCall          ResumeMode = "REPLAY_TOOL_CALL"
	UseDecisionAsToolResult ResumeMode = "USE_DECISION_AS_TOOL_RESULT"
	PassDecisionToTool      ResumeMode = "PASS_DECISION_TO_TOOL"
)

// A Decision ends a suspension.
type Decision struct {
	ID     string         `json:"decision_id"` // made by the client; the same id and content replay the outcome
	Action DecisionAction `json:"action"`
	Result string         `json:"result,omitempty"` // JSON text
	// Arguments, JSON text, replace the call's: an edit.
	Arguments      string `json:"arguments,omitempty"`
	Reason         string `json:"reason,omitempty"`
	ExpectedDigest string `json:"expected_digest,omitempty"`
	// Remember keeps a yes for later calls; nil keeps nothing.
	Remember *Remember `json:"remember,omitempty"`

	DecidedBy Principal `json:"decided_by,omitzero"` // set by the server
	Time      time.Time `json:"time,omitzero"`       // set by the store
	// AppliesTo is the digest that the answer counts for, set by the engine.
	AppliesTo string `json:"applies_to,omitempty"`
	// Votes are the answers that say the same, this one included, where a ticket needs several. Set by the engine.
	Votes []Vote `json:"votes,omitempty"`
}

// A Vote is one of the answers that a ticket needs.
type Vote struct {
	DecisionID string         `json:"decision_id"`
	Action     DecisionAction `json:"action"`
	Voter      Principal      `json:"voter"`
	Time       time.Time      `json:"time"`
	Edited     bool           `json:"edited,omitempty"` // it is for other arguments than were asked about
	// Says is a digest of what the answer counts for: votes that say the same have the same one.
	Says string `json:"says,omitempty"`
}

// Voters returns everybody whose answer this decision is.
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

// The zero action is invalid.
const (
	Resume DecisionAction = "RESUME"
	Cancel DecisionAction = "CANCEL"
)
