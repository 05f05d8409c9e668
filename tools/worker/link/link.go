// Package link defines the messages between a worker's connection and the hub that assigns its work: the offer of a worker, the response to
// the offer, and the requests. Both the endpoints and tools/worker use this package, so that neither imports the other.
package link

import (
	"time"

	"github.com/toold-dev/toold/tool"
)

// An Offer is the registration of a worker.
type Offer struct {
	Pool          string // pool to which the tools of the worker belong
	Name, Version string // shown to people
	Labels        map[string]string
	Limit         int // maximum number of leases at the same time; 0 means 16
	Tools         []Tool
	Held          []string // leases from an earlier session on which the worker still works
	Previous      string   // id of that earlier session
}

// A Tool is a tool of a worker.
type Tool struct {
	Descriptor tool.Descriptor `json:"descriptor"`
	Reconciles bool            `json:"reconciles,omitempty"` // The worker can report how an interrupted attempt ended.
	Polls      bool            `json:"polls,omitempty"`      // The worker can report the state of an operation.
	Abandons   bool            `json:"abandons,omitempty"`   // The worker is notified when a suspended call will not be resumed.
	Validates  bool            `json:"validates,omitempty"`  // The worker can check arguments.
	Assesses   bool            `json:"assesses,omitempty"`   // The worker can assess the effects of a call.
	Describes  bool            `json:"describes,omitempty"`  // The worker can describe a call for people.
	Documents  []DocumentKey   `json:"documents,omitempty"`  // documents that the worker gets with a call of the tool
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
	Kept    []string // those leases in Offer.Held that the worker still holds
	StoreID string   // id of the daemon's store
	Epoch   int64
}

// A Refusal says why a tool of an offer is not served.
type Refusal struct{ Tool, Reason, Message string }

// The reasons of refusals.
const (
	Invalid         = "INVALID"
	Taken           = "TAKEN"
	OtherDefinition = "OTHER_DEFINITION"
	Quarantined     = "QUARANTINED" // waits until an operator accepts the definition
	TooMany         = "TOO_MANY"    // the namespace has the maximum number of worker tools
)

// An Answer is a worker's response to a question about a call that has not started. Err says why there is no answer. For VALIDATE, Err
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
	// Ack confirms that the daemon has accepted the outcome of a lease, so the worker need not keep the outcome any longer.
	Ack(lease string)
	// Lost reports that the worker does not hold this lease.
	Lost(lease string)
	// Question asks about a call that has not started. The worker must answer in the given time.
	Question(id, kind string, c *tool.Call, documents []tool.Document, within time.Duration)
	// Input sends input that a person typed into a call. position is the offset of data in the whole input. ended reports that no input
	// follows.
	Input(lease string, position int64, data []byte, ended bool, err error)
	// End tells the worker that the connection ends. The owner of the session must then close the session. reason is in UPPER_SNAKE_CASE.
	End(reason string, why error)
}
