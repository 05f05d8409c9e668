// Package link defines the messages between a worker's connection and the package that assigns its work: the offer of a worker, the
// response to it, and the requests. The endpoints and tools/worker use it, so that neither imports the other.
package link

import (
	"time"

	"github.com/toold-dev/toold/tool"
)

// An Offer is the registration of a worker.
type Offer struct {
	Pool          string // pool of its tools
	Name, Version string // for people
	Labels        map[string]string
	Limit         int // maximum work at the same time; 0 means 16
	Tools         []Tool
	Held          []string // leases of an earlier session that it still works on
	Previous      string   // id of that earlier session
}

// A Tool is a tool of a worker.
type Tool struct {
	Descriptor tool.Descriptor `json:"descriptor"`
	Reconciles bool            `json:"reconciles,omitempty"` // it can report how an attempt ended
	Polls      bool            `json:"polls,omitempty"`      // it can report the progress of an operation
	Abandons   bool            `json:"abandons,omitempty"`   // it wants a notice when a question of its call gets no answer
	Validates  bool            `json:"validates,omitempty"`  // it checks arguments
	Assesses   bool            `json:"assesses,omitempty"`   // it assesses the effects of a call
	Describes  bool            `json:"describes,omitempty"`  // it describes a call for people
	Documents  []DocumentKey   `json:"documents,omitempty"`  // documents that its calls receive
}

// A DocumentKey identifies a document.
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
	StoreID string   // the daemon's store
	Epoch   int64
}

// A Refusal is a tool of an offer that is not served.
type Refusal struct{ Tool, Reason, Message string }

// The reasons of refusals.
const (
	Invalid         = "INVALID"
	Taken           = "TAKEN"
	OtherDefinition = "OTHER_DEFINITION"
	Quarantined     = "QUARANTINED" // served after an operator accepts the definition
	TooMany         = "TOO_MANY"    // the namespace has the maximum number of worker tools
)

// An Answer is a worker's response to a question about a call that has not started, or the reason why it has none. For VALIDATE, the error
// describes what is wrong with the arguments.
type Answer struct {
	Effects     *tool.Effects
	Description *tool.Description
	Err         error
}

// A Line sends messages to a worker. Its methods do not wait for the worker and are safe for concurrent use.
type Line interface {
	Start(lease, kind string, c *tool.Call, documents []tool.Document)
	Cancel(lease string, cause error)
	// Ack confirms that the outcome of the work is accepted. The worker need not keep it any longer.
	Ack(lease string)
	// Lost reports that the worker does not hold a lease.
	Lost(lease string)
	// Question asks about a call that has not started. The worker must answer in the given time.
	Question(id, kind string, c *tool.Call, documents []tool.Document, within time.Duration)
	// Input sends input that a person typed into a call. ended reports that nothing follows.
	Input(lease string, position int64, data []byte, ended bool, err error)
	// End ends the connection. The owner of the session must then close it. The reason is UPPER_SNAKE_CASE.
	End(reason string, why error)
}
