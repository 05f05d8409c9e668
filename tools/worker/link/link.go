// Package link has the words between the connection of a worker and the part that gives it work: what a worker offers, the response to its
// offer, and what it is asked. Endpoints and tools/worker use them, so that neither needs the other.
package link

import (
	"time"

	"github.com/toold-dev/toold/tool"
)

// An Offer is how a worker registers.
type Offer struct {
	Pool          string // of its tools
	Name, Version string // for people
	Labels        map[string]string
	Limit         int // work at once; 0 is 16
	Tools         []Tool
	Held          []string // leases of an earlier session that it still works on
	Previous      string   // id of that session
}

// A Tool is a tool of a worker.
type Tool struct {
	Descriptor tool.Descriptor `json:"descriptor"`
	Reconciles bool            `json:"reconciles,omitempty"` // it reports how an attempt ended
	Polls      bool            `json:"polls,omitempty"`      // it reports the progress of an operation
	Abandons   bool            `json:"abandons,omitempty"`   // it wants a notice when nobody answers a question of its call
	Validates  bool            `json:"validates,omitempty"`  // it checks arguments
	Assesses   bool            `json:"assesses,omitempty"`   // it assesses the effects of a call
	Describes  bool            `json:"describes,omitempty"`  // it describes a call for people
	Documents  []DocumentKey   `json:"documents,omitempty"`  // that its calls receive
}

// A DocumentKey names a document.
type DocumentKey struct {
	Scope tool.Scope `json:"scope"`
	Key   string     `json:"key"`
}

// Accepted is the response to an offer.
type Accepted struct {
	ID      string
	Lease   time.Duration
	Refused []Refusal
	Kept    []string // leases that the worker still holds
	StoreID string   // of the daemon
	Epoch   int64
}

// A Refusal is a tool of an offer that is not served.
type Refusal struct{ Tool, Reason, Message string }

// The reasons of refusals.
const (
	Invalid         = "INVALID"
	Taken           = "TAKEN"
	OtherDefinition = "OTHER_DEFINITION"
	Quarantined     = "QUARANTINED" // it is served as soon as an operator accepts the definition
	TooMany         = "TOO_MANY"    // the namespace has as many tools of workers as it may
)

// An Answer is the response of a worker to a question about a call that does not run yet, or why it has none. To VALIDATE the error says
// what is wrong with the arguments.
type Answer struct {
	Effects     *tool.Effects
	Description *tool.Description
	Err         error
}

// A Line sends messages to a worker. Its methods do not wait for the worker, and are called from many goroutines.
type Line interface {
	Start(lease, kind string, c *tool.Call, documents []tool.Document)
	Cancel(lease string, cause error)
	// Ack says that the outcome of the work was accepted: the worker need not keep it.
	Ack(lease string)
	// Lost says that the worker does not hold a lease.
	Lost(lease string)
	// Question asks about a call that does not run yet; an answer counts until the time is over.
	Question(id, kind string, c *tool.Call, documents []tool.Document, within time.Duration)
	// Input sends what a person typed into a call; ended says that nothing follows.
	Input(lease string, position int64, data []byte, ended bool, err error)
	// End ends the connection; the owner of the session closes it then. The reason is UPPER_SNAKE_CASE.
	End(reason string, why error)
}
