package ledger

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A Ledger collects the violations of all calls.
type Ledger struct {
	began time.Time

	mu     sync.Mutex
	broken []Violation
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{began: time.Now()} }

// A Violation is a broken promise.
type Violation struct {
	Promise string // such as P4
	CallID  string // empty when the violation concerns no single call
	What    string
	History []string // requests and events of the call, oldest first
}

func (v Violation) String() string {
	text := v.Promise + " broken: " + v.What
	if v.CallID != "" {
		text = v.Promise + " broken for call " + v.CallID + ": " + v.What
	}
	return strings.Join(append([]string{text}, v.History...), "\n    ")
}

// Break records a violation that concerns no single call.
func (l *Ledger) Break(promise, format string, args ...any) {
	l.add(Violation{Promise: promise, What: fmt.Sprintf(format, args...)})
}

// Broken returns the violations found so far.
func (l *Ledger) Broken() []Violation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Violation(nil), l.broken...)
}

func (l *Ledger) add(v Violation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = append(l.broken, v)
}
