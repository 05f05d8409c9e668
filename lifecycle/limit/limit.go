// Package limit bounds the resources that calls use.
//
//   - [Slots]: how many calls run at once, and how many wait. A client that floods the queue delays only its own calls.
//   - [Threads]: calls of a thread that are not safe to run concurrently run one after the other.
//   - [Questions]: how many suspended calls a namespace and a principal may have.
//   - [Circuits]: calls to a source are refused for a time after its upstream failed several times in a row.
//   - [Storage]: how many bytes a namespace may have in the journal and the spool.
//
// The limits answer immediately, start no goroutine and do not depend on the engine. Checking a limit that is not set costs nothing.
package limit

import (
	"cmp"
	"time"

	"github.com/toold-dev/toold/call"
)

// Limits are the limits of one engine.
type Limits struct {
	Slots     *Slots
	Threads   Threads
	Questions Questions
	Circuits  Circuits
	Storage   Storage
}

// New returns the limits that c describes.
func New(c call.Limits) *Limits {
	total, queue := cmp.Or(c.Concurrency, 256), cmp.Or(c.QueueLength, 4096)
	slots := newSlots(total, queue)
	slots.namespace, slots.principal, slots.tools = c.NamespaceConcurrency, c.PrincipalConcurrency, c.ToolConcurrency
	slots.namespaceQueue, slots.principalQueue = c.QueueShares()
	return &Limits{
		Slots:     slots,
		Threads:   Threads{length: queue},
		Questions: Questions{namespace: c.NamespaceQuestions, principal: c.PrincipalQuestions},
		Circuits:  Circuits{failures: c.CircuitFailures, open: cmp.Or(c.CircuitOpen, 30*time.Second)},
		Storage:   Storage{max: c.StoredBytes},
	}
}
