// Package limit bounds what the calls of a daemon use: slots, turns in threads, open questions, failing sources and storage.
//
//   - [Slots]: how many calls run at once, and how many wait. A client that floods the queue delays its own calls, not those of others.
//   - [Threads]: calls of a thread that are not safe to run concurrently run one after the other.
//   - [Questions]: how many suspended calls a namespace and a principal may have.
//   - [Circuits]: a source whose upstream failed several times in a row is not used for a time.
//   - [Storage]: how many bytes a namespace may have in the journal and the spool.
//
// The limits count and answer at once; they start no goroutine and do not know the engine. A limit of zero means that there is none, and
// costs nothing.
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
