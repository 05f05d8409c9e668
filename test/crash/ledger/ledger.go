package ledger

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// A Ledger gathers the violations of all calls.
type Ledger struct {
	began time.Time

	mu     sync.Mutex
	broken []Violation
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{began: time.Now()} }

// A Violation is a promise that was not kept.
type Violation struct {
	Promise string // such as P4
	CallID  string // empty when it is not about one call
	What    string
	History []string // what was asked and told of the call, oldest first
}

func (v Violation) String() string {
	text := v.Promise + " broken: " + v.What
	if v.CallID != "" {
		text = v.Promise + " broken for call " + v.CallID + ": " + v.What
	}
	return strings.Join(append([]string{text}, v.History...), "\n    ")
}

// Break notes a violation that is not about one call.
func (l *Ledger) Break(promise, format string, args ...any) {
	l.add(Violation{Promise: promise, What: fmt.Sprintf(format, args...)})
}

// Broken returns what was found so far.
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
