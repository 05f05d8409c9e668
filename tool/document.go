package tool

import (
	"encoding/json"
	"fmt"
)

// Scope is the life of a document.
type Scope string

// RUN documents go with the run, THREAD documents with the thread's retention. Documents of a NAMESPACE have no place yet;
// remembered answers do.
const (
	RunScope       Scope = "RUN"
	ThreadScope    Scope = "THREAD"
	NamespaceScope Scope = "NAMESPACE"
)

// A Document is a JSON value that tools and hooks keep.
type Document struct {
	Scope    Scope  `json:"scope"`
	ScopeID  string `json:"scope_id"` // the run's or thread's id
	Key      string `json:"key"`
	Value    string `json:"value"`    // JSON text
	Revision int64  `json:"revision"` // from 1, one more with each change
}

// Documents is an immutable snapshot of the documents of a call's run and thread.
type Documents interface {
	// Get returns the document, or false. An error means that the journal could not be read.
	Get(scope Scope, key string) (Document, bool, error)
}

// A Command changes a document when the call commits. Documents never decide the fate of a call: a command that loses
// is dropped and told as a state_conflict event.
type Command struct {
	Op    CommandOp `json:"op"`
	Scope Scope     `json:"scope"`
	Key   string    `json:"key"`
	Value string    `json:"value,omitempty"` // JSON text, with OpSet
	// Expected is the revision that the document must have: nil any, 0 none yet.
	Expected *int64 `json:"expected,omitempty"`
}

// CommandOp is what a command does.
type CommandOp string

// The commands; both are exclusive.
const (
	OpSet    CommandOp = "set"
	OpDelete CommandOp = "delete"
)

// A Key names a document whose value is a T.
type Key[T any] struct {
	Scope Scope
	Name  string
}

// Get returns the value that the call sees, its revision (0 when there is none), or an error when the stored JSON is not
// a T.
func (k Key[T]) Get(c *Call) (v T, revision int64, err error) {
	if c.Documents == nil {
		return v, 0, nil
	}
	doc, ok, err := c.Documents.Get(k.Scope, k.Name)
	if err != nil || !ok {
		return v, 0, err
	}
	if err := json.Unmarshal([]byte(doc.Value), &v); err != nil {
		return v, 0, fmt.Errorf("document %s %s: %w", k.Scope, k.Name, err)
	}
	return v, doc.Revision, nil
}

// Set returns the command that stores v, whatever was there.
func (k Key[T]) Set(v T) Command {
	return Command{Op: OpSet, Scope: k.Scope, Key: k.Name, Value: mustJSON(v)}
}

// SetAt returns the command that stores v if the document still has this revision; 0 means that there is none yet.
func (k Key[T]) SetAt(v T, revision int64) Command {
	c := k.Set(v)
	c.Expected = &revision
	return c
}

// Delete returns the command that removes the document.
func (k Key[T]) Delete() Command {
	return Command{Op: OpDelete, Scope: k.Scope, Key: k.Name}
}
