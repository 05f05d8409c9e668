package store

import (
	"fmt"
	"maps"
	"sync"

	"github.com/toold-dev/toold/call"
)

// OutputLimits limits the bytes of output that the calls of each thread and namespace may have in a spool. Zero means no limit.
type OutputLimits struct {
	Thread, Namespace int64
}

// A QuotaError means that more output of a thread or namespace would exceed its limit. Trimming or purging its calls frees space.
type QuotaError struct {
	Thread bool // true means the limit of the thread; false means the limit of the namespace
	Most   int64
}

func (e *QuotaError) Error() string {
	of := "namespace"
	if e.Thread {
		of = "thread"
	}
	return fmt.Sprintf("the calls of this %s may keep %d bytes of output", of, e.Most)
}

// A Ledger counts the bytes that threads and namespaces have in a spool. A nil Ledger counts nothing and refuses nothing.
type Ledger struct {
	limits OutputLimits

	mu         sync.Mutex
	namespaces map[string]int64
	threads    map[ThreadKey]int64
}

// A ThreadKey names a thread.
type ThreadKey struct{ Namespace, Thread string }

// NewLedger returns an empty ledger, or nil when there are no limits.
func NewLedger(limits OutputLimits) *Ledger {
	if limits == (OutputLimits{}) {
		return nil
	}
	return &Ledger{limits: limits, namespaces: map[string]int64{}, threads: map[ThreadKey]int64{}}
}

// Take counts n bytes that will be appended. When they exceed a limit, it returns a [*QuotaError] and counts nothing.
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

// Add counts n bytes without checking the limits. n is negative for removed bytes.
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

// Reset replaces the counts. The ledger owns the maps from then on.
func (l *Ledger) Reset(namespaces map[string]int64, threads map[ThreadKey]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.namespaces, l.threads = namespaces, threads
}

// Counts returns copies of the counts, or nil for a nil Ledger.
func (l *Ledger) Counts() (namespaces map[string]int64, threads map[ThreadKey]int64) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.namespaces), maps.Clone(l.threads)
}
