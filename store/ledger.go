package store

import (
	"fmt"
	"maps"
	"sync"

	"github.com/toold-dev/toold/call"
)

// OutputLimits bound what the calls of each thread and namespace have in a spool, in bytes; 0 is any number.
type OutputLimits struct {
	Thread, Namespace int64
}

// A QuotaError means that a thread or namespace has as much output as it may have. There is room again when calls of it
// were trimmed or purged.
type QuotaError struct {
	Thread bool // of the call; else its namespace
	Most   int64
}

func (e *QuotaError) Error() string {
	of := "namespace"
	if e.Thread {
		of = "thread"
	}
	return fmt.Sprintf("the calls of this %s may keep %d bytes of output", of, e.Most)
}

// A Ledger counts what threads and namespaces have in a spool. The nil Ledger counts nothing and refuses nothing.
type Ledger struct {
	limits OutputLimits

	mu         sync.Mutex
	namespaces map[string]int64
	threads    map[ThreadKey]int64
}

// A ThreadKey names a thread.
type ThreadKey struct{ Namespace, Thread string }

// NewLedger returns an empty ledger, nil when nothing is bounded.
func NewLedger(limits OutputLimits) *Ledger {
	if limits == (OutputLimits{}) {
		return nil
	}
	return &Ledger{limits: limits, namespaces: map[string]int64{}, threads: map[ThreadKey]int64{}}
}

// Take notes that n bytes go to the spool, or returns a [*QuotaError] and notes nothing.
func (l *Ledger) Take(key call.Key, thread string, n int64) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if most := l.limits.Thread; most > 0 && thread != "" && l.threads[ThreadKey{key.Namespace, thread}]+n > most {
		return &QuotaError{Thread: true, Most: most}
	}
	if most := l.limits.Namespace; most > 0 && l.namespaces[key.Namespace]+n > most {
		return &QuotaError{Most: most}
	}
	l.addLocked(key.Namespace, thread, n)
	return nil
}

// Add notes what is in the spool already: n more bytes, or less when n is negative.
func (l *Ledger) Add(key call.Key, thread string, n int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLocked(key.Namespace, thread, n)
}

func (l *Ledger) addLocked(namespace, thread string, n int64) {
	add(l.namespaces, namespace, n)
	if thread != "" {
		add(l.threads, ThreadKey{namespace, thread}, n)
	}
}

func add[K comparable](counts map[K]int64, of K, n int64) {
	if left := counts[of] + n; left > 0 {
		counts[of] = left
	} else {
		delete(counts, of)
	}
}

// Reset puts counts in the place of what was counted. They are the ledger's own from then on.
func (l *Ledger) Reset(namespaces map[string]int64, threads map[ThreadKey]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.namespaces, l.threads = namespaces, threads
}

// Counts returns copies of what was counted; nil of the nil Ledger.
func (l *Ledger) Counts() (namespaces map[string]int64, threads map[ThreadKey]int64) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.namespaces), maps.Clone(l.threads)
}
