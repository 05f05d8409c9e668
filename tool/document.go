package tool

import (
	"encoding/json"
	"fmt"
)

// Scope is the lifetime of a document.
type Scope string

// RUN documents are deleted with the run. THREAD documents are deleted with the last stored call of the thread. NAMESPACE documents remain
// until a client deletes them; every call in the namespace sees them.
const (
	RunScope       Scope = "RUN"
	ThreadScope    Scope = "THREAD"
	NamespaceScope Scope = "NAMESPACE"
)

// ID returns the identifier of the scope for a call: the run, the thread, or "" for a namespace. ok is false when the call has no run or no
// thread, and therefore no such scope.
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

// A Document is a JSON value that tools and hooks store.
type Document struct {
	Scope    Scope  `json:"scope"`
	ScopeID  string `json:"scope_id"` // id of the run or thread; empty for NAMESPACE
	Key      string `json:"key"`
	Value    string `json:"value"`    // JSON text
	Revision int64  `json:"revision"` // starts at 1 and grows by one with each change
}

// Documents is an immutable snapshot of the documents that a call sees: those of its run, its thread and its namespace. All values are from
// the same moment, whatever other calls commit meanwhile.
type Documents interface {
	// Get returns the document and true, or false when it does not exist. An error means that the journal could not be read.
	Get(scope Scope, key string) (Document, bool, error)
}

// A Command changes a document when the call commits. A failing command never affects the outcome of its call. The engine drops the command
// and publishes a state_conflict event.
//
// Set, merge and delete claim the document for their call: in a group of parallel calls, only the first call that commits may change it.
// Add and append claim nothing, because any order gives the same sum and the same set of array elements.
type Command struct {
	Op    CommandOp `json:"op"`
	Scope Scope     `json:"scope"`
	Key   string    `json:"key"`             // at most 256 bytes
	Value string    `json:"value,omitempty"` // JSON text; empty for OpDelete
	// Expected is the revision that the document must have. Nil means any revision; 0 means that the document must not exist.
	Expected *int64 `json:"expected,omitempty"`
}

// CommandOp is the kind of a command.
type CommandOp string

// The commands. A missing document counts as an empty object for merge, as 0 for add and as an empty array for append.
const (
	OpSet    CommandOp = "set"    // claims the document
	OpMerge  CommandOp = "merge"  // applies a JSON Merge Patch (RFC 7396); claims the document
	OpDelete CommandOp = "delete" // claims the document
	OpAdd    CommandOp = "add"    // adds a number of any size without rounding; claims nothing
	OpAppend CommandOp = "append" // appends one value to an array; claims nothing
)

// Exclusive reports whether a command of this kind claims its document.
func (o CommandOp) Exclusive() bool { return o == OpSet || o == OpMerge || o == OpDelete }

// A Key identifies a document whose value is a T.
type Key[T any] struct {
	Scope Scope
	Name  string
}

// Get returns the value of the document that the call sees, and its revision. When the document does not exist, it returns the zero value
// and revision 0. It returns an error when the stored JSON does not fit T.
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

// Set returns the command that stores v unconditionally.
func (k Key[T]) Set(v T) Command {
	return Command{Op: OpSet, Scope: k.Scope, Key: k.Name, Value: mustJSON(v)}
}

// SetAt returns the command that stores v if the document has this revision. Revision 0 means that the document must not exist.
func (k Key[T]) SetAt(v T, revision int64) Command {
	c := k.Set(v)
	c.Expected = &revision
	return c
}

// Delete returns the command that removes the document.
func (k Key[T]) Delete() Command {
	return Command{Op: OpDelete, Scope: k.Scope, Key: k.Name}
}

// Merge returns the command that applies a JSON Merge Patch to the stored value. The patch is a struct, a map or a [json.RawMessage]. A
// member that is null in the patch is removed from the document.
func (k Key[T]) Merge(patch any) Command {
	return Command{Op: OpMerge, Scope: k.Scope, Key: k.Name, Value: mustJSON(patch)}
}

// Add returns the command that adds n to a document that is a number. n is a number of any type or a [json.Number].
func (k Key[T]) Add(n any) Command {
	return Command{Op: OpAdd, Scope: k.Scope, Key: k.Name, Value: mustJSON(n)}
}

// Append returns the command that appends item to a document that is an array.
func (k Key[T]) Append(item any) Command {
	return Command{Op: OpAppend, Scope: k.Scope, Key: k.Name, Value: mustJSON(item)}
}
