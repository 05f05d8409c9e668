package tool

import (
	"encoding/json"
	"fmt"
)

// Scope is the life of a document.
type Scope string

// RUN documents go with the run, THREAD documents with the last call of the thread that is kept. NAMESPACE documents stay until
// somebody deletes them; every call in the namespace sees them.
const (
	RunScope       Scope = "RUN"
	ThreadScope    Scope = "THREAD"
	NamespaceScope Scope = "NAMESPACE"
)

// ID returns the id of the scope for a call of this run and thread: "" for NAMESPACE. It reports false when there is no such scope,
// because the call belongs to no run or to no thread.
func (s Scope) ID(run, thread string) (id string, ok bool) {
	switch s {
	case RunScope:
		return run, run != ""
	case ThreadScope:
		return thread, thread != ""
	case NamespaceScope:
		return "", true
	}
	return "", false
}

// A Document is a JSON value that tools and hooks keep.
type Document struct {
	Scope    Scope  `json:"scope"`
	ScopeID  string `json:"scope_id"` // the run's or thread's id; empty for NAMESPACE
	Key      string `json:"key"`
	Value    string `json:"value"`    // JSON text
	Revision int64  `json:"revision"` // from 1, one more with each change
}

// Documents is an immutable snapshot of the documents that a call sees: those of its run, its thread and its namespace. All
// that is read from one is of one moment, whatever others commit meanwhile.
type Documents interface {
	// Get returns the document, or false. An error means that the journal could not be read.
	Get(scope Scope, key string) (Document, bool, error)
}

// A Command changes a document when the call commits. Documents never decide the fate of a call: a command that loses
// is dropped and published as a state_conflict event.
//
// Set, merge and delete claim the document for their call: of the calls of one parallel group the first to commit has it. Add
// and append claim nothing; in which order they come makes no difference to a sum, nor to what is in an array.
type Command struct {
	Op    CommandOp `json:"op"`
	Scope Scope     `json:"scope"`
	Key   string    `json:"key"`             // at most 256 bytes
	Value string    `json:"value,omitempty"` // JSON text; none with OpDelete
	// Expected is the revision that the document must have: nil any, 0 none yet.
	Expected *int64 `json:"expected,omitempty"`
}

// CommandOp is what a command does.
type CommandOp string

// The commands. A document that does not exist is an empty object, 0 or an empty array for those that change one.
const (
	OpSet    CommandOp = "set"    // exclusive
	OpMerge  CommandOp = "merge"  // a JSON Merge Patch, RFC 7396; exclusive
	OpDelete CommandOp = "delete" // exclusive
	OpAdd    CommandOp = "add"    // an exact sum of numbers, whatever their size; commutative
	OpAppend CommandOp = "append" // one value behind the last of an array; commutative
)

// Exclusive reports whether a command of this kind claims its document.
func (o CommandOp) Exclusive() bool { return o == OpSet || o == OpMerge || o == OpDelete }

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

// Merge returns the command that puts patch, a JSON Merge Patch in the form of a struct, a map or a [json.RawMessage], on top of
// the stored value: a member that is null is removed.
func (k Key[T]) Merge(patch any) Command {
	return Command{Op: OpMerge, Scope: k.Scope, Key: k.Name, Value: mustJSON(patch)}
}

// Add returns the command that adds n, a number of any type or a [json.Number], to a document that is a number.
func (k Key[T]) Add(n any) Command {
	return Command{Op: OpAdd, Scope: k.Scope, Key: k.Name, Value: mustJSON(n)}
}

// Append returns the command that puts item behind the last one of a document that is an array.
func (k Key[T]) Append(item any) Command {
	return Command{Op: OpAppend, Scope: k.Scope, Key: k.Name, Value: mustJSON(item)}
}
