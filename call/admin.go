package call

import (
	"cmp"
	"time"
)

// Limits bound what the calls of a daemon use.
type Limits struct {
	Concurrency int // calls that run at once; 0 means 256
	QueueLength int // calls that wait for a slot; 0 means 4,096

	// Running calls of a namespace, of a principal and of tools; 0 and none: no limit below Concurrency.
	NamespaceConcurrency, PrincipalConcurrency int
	ToolConcurrency                            []ToolLimit // the first one that matches counts
	// Waiting calls of a namespace and of a principal; 0 means three quarters and half of QueueLength.
	NamespaceQueue, PrincipalQueue int

	// Open questions of a namespace and of a principal; 0: no limit.
	NamespaceQuestions, PrincipalQuestions int
	// CircuitFailures in a row with UPSTREAM open the circuit of a source; 0: never. After CircuitOpen one call tries again; 0 means 30 s.
	CircuitFailures int
	CircuitOpen     time.Duration
	// StoredBytes is about how much a namespace may have in the journal and the spool; 0: no limit.
	StoredBytes int64
}

// QueueShares returns how many calls of a namespace and of a principal may wait.
func (l *Limits) QueueShares() (namespace, principal int) {
	queue := cmp.Or(l.QueueLength, 4096)
	return cmp.Or(l.NamespaceQueue, max(queue*3/4, 1)), cmp.Or(l.PrincipalQueue, max(queue/2, 1))
}

// A ToolLimit bounds how many calls of a tool run at once.
type ToolLimit struct {
	Tools string // glob on ids; each matching tool is counted alone, also when two sources have tools with the same id
	Calls int
}

// A Backup says what a copy of a store holds.
type Backup struct {
	Calls int64
	Files int   // of output
	Bytes int64 // of all files
}
