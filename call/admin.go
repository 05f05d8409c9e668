package call

import (
	"cmp"
	"time"
)

// Limits has the limits for the calls of a daemon.
type Limits struct {
	Concurrency int // maximum running calls; 0 means 256
	QueueLength int // maximum calls that wait for a slot; 0 means 4,096

	// Maximum running calls of each namespace, of each principal and of tools. Zero or an empty list means no limit other than Concurrency.
	NamespaceConcurrency, PrincipalConcurrency int
	ToolConcurrency                            []ToolLimit // limits of tools; for each tool, the first matching limit applies
	// Maximum waiting calls of each namespace and of each principal. Zero means three quarters of QueueLength for a namespace and half of
	// it for a principal.
	NamespaceQueue, PrincipalQueue int

	// Maximum open suspensions of a namespace and of a principal. Zero means no limit.
	NamespaceQuestions, PrincipalQuestions int
	// CircuitFailures is the number of consecutive UPSTREAM failures that open the circuit of a source. Zero means that circuits never
	// open. CircuitOpen is the time after which one call tries the source again; zero means 30 s.
	CircuitFailures int
	CircuitOpen     time.Duration
	// StoredBytes is the approximate number of bytes that a namespace may have in the journal and the spool. Zero means no limit.
	StoredBytes int64
}

// QueueShares returns how many calls of a namespace and of a principal may wait.
func (l *Limits) QueueShares() (namespace, principal int) {
	queue := cmp.Or(l.QueueLength, 4096)
	return cmp.Or(l.NamespaceQueue, max(queue*3/4, 1)), cmp.Or(l.PrincipalQueue, max(queue/2, 1))
}

// A ToolLimit limits the running calls of a tool.
type ToolLimit struct {
	Tools string // Glob on tool ids. Each matching tool is counted separately, even when two sources have tools with the same id.
	Calls int
}

// A Backup reports the contents of a copied store.
type Backup struct {
	Calls int64
	Files int   // number of output files
	Bytes int64 // size of all files
}
