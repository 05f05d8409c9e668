package store

import (
	"errors"
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A DocumentScope is a scope of documents in a namespace. ID is the id of a run or thread, and empty for the scope NAMESPACE.
type DocumentScope struct {
	Scope tool.Scope
	ID    string
}

// A DocumentKey names a document in its namespace.
type DocumentKey struct {
	Scope        tool.Scope
	ScopeID, Key string
}

// In returns the scope of the document.
func (k DocumentKey) In() DocumentScope { return DocumentScope{k.Scope, k.ScopeID} }

// A DocumentChange is a command and the id of its scope.
type DocumentChange struct {
	ScopeID string
	Command tool.Command
}

// Key returns the key of the document that the command names.
func (d *DocumentChange) Key() DocumentKey {
	return DocumentKey{d.Command.Scope, d.ScopeID, d.Command.Key}
}

// DocumentLimits limits the size of documents and scopes.
type DocumentLimits struct {
	Size  int   // bytes of a document's JSON text
	Count int   // documents of a scope
	Total int64 // bytes of the documents of a scope
}

// deletedFor limits how many rows of deleted documents a scope keeps: at most 16 for each document that DocumentLimits.Count allows.
const deletedFor = 16

// A DocumentState is a stored document. A deleted document keeps its revision, so that two values of the document never have the same
// revision.
type DocumentState struct {
	Value    string
	Revision int64 // 0 when the document never existed
	Deleted  bool
	// Broken means that the stored value is damaged. A command may replace it but not modify it.
	Broken bool
	// CallID is the call that last set, merged or deleted the document as a member of a parallel group. Group is that group.
	Group, CallID string
}

// current returns the revision that a command must name as expected. It is 0 when the document does not exist.
func (d *DocumentState) current() int64 {
	if d.Deleted {
		return 0
	}
	return d.Revision
}

// DocumentUsage counts the documents of a scope and their bytes, for the limits.
type DocumentUsage struct {
	Documents, Deleted int
	Bytes              int64 // bytes of the values
}

// A DocumentReader reads documents for [ResolveDocuments], inside the transaction that writes the result.
type DocumentReader interface {
	Document(DocumentKey) (DocumentState, error)
	Usage(DocumentScope) (DocumentUsage, error)
}

// ResolveDocuments computes the effect of the commands of a change.
func (c *Change) ResolveDocuments(r DocumentReader) (map[DocumentKey]DocumentState, []call.DocumentNotice, error) {
	return ResolveDocuments(r, c.Documents, c.Limits, c.Group, c.Name().ID)
}

// ResolveDocuments computes the effect of commands in order, each on the result of the previous one. It writes nothing: the store must then
// write the states in writes. notices has the outcome of each command, for publication.
func ResolveDocuments(r DocumentReader, changes []DocumentChange, limits DocumentLimits, group, callID string) (writes map[DocumentKey]DocumentState, notices []call.DocumentNotice, err error) {
	s := resolution{DocumentReader: r, limits: limits, group: group, callID: callID,
		writes: make(map[DocumentKey]DocumentState, len(changes)),
		usage:  map[DocumentScope]DocumentUsage{}, changed: map[DocumentScope]DocumentUsage{}}
	notices = make([]call.DocumentNotice, 0, len(changes))
	for i := range changes {
		notice, err := s.resolve(&changes[i])
		if err != nil {
			return nil, nil, err
		}
		notices = append(notices, notice)
	}
	return s.writes, notices, nil
}

type resolution struct {
	DocumentReader
	limits        DocumentLimits
	group, callID string
	writes        map[DocumentKey]DocumentState
	usage         map[DocumentScope]DocumentUsage // counts of the stored documents
	changed       map[DocumentScope]DocumentUsage // how much the resolved commands change these counts
}

func (s *resolution) resolve(d *DocumentChange) (call.DocumentNotice, error) {
	key, c := d.Key(), &d.Command
	notice := call.DocumentNotice{Scope: key.Scope, ScopeID: key.ScopeID, Key: key.Key, Expected: c.Expected}
	state, ok := s.writes[key]
	if !ok {
		var err error
		if state, err = s.Document(key); err != nil {
			return notice, err
		}
	}
	notice.Revision = state.current()
	if notice.Conflict = s.forbids(&state, c); notice.Conflict != "" {
		return notice, nil
	}
	if c.Op == tool.OpDelete && state.current() == 0 {
		return notice, nil
	}
	next, err := s.apply(&state, c)
	if conflict, ok := errors.AsType[*call.ConflictError](err); ok {
		notice.Conflict = conflict.Reason
		return notice, nil
	}
	if err != nil {
		return notice, fmt.Errorf("document %s: %w", key.Key, err)
	}
	if notice.Conflict, err = s.checkLimits(key.In(), &state, &next); err != nil || notice.Conflict != "" {
		return notice, err
	}
	s.writes[key] = next
	notice.Revision = next.Revision
	return notice, nil
}

// forbids returns the conflict that prevents a command, whichever value the command would store.
func (s *resolution) forbids(state *DocumentState, c *tool.Command) call.Conflict {
	switch {
	case c.Expected != nil && *c.Expected != state.current():
		return call.ConflictRevision
	case s.group != "" && c.Op.Exclusive() && state.Group == s.group && state.CallID != s.callID:
		return call.ConflictClaimed
	case state.Broken && c.Op != tool.OpSet && c.Op != tool.OpDelete:
		return call.ConflictBroken
	}
	return ""
}

func (s *resolution) apply(state *DocumentState, c *tool.Command) (DocumentState, error) {
	before := state.Value
	if state.current() == 0 {
		before = ""
	}
	value, err := call.Apply(before, c)
	next := DocumentState{Value: value, Revision: state.Revision + 1, Deleted: c.Op == tool.OpDelete, Group: state.Group, CallID: state.CallID}
	if s.group != "" && c.Op.Exclusive() {
		next.Group, next.CallID = s.group, s.callID
	}
	return next, err
}

// checkLimits checks a document and its scope against the limits. A change that makes a document smaller is always allowed.
func (s *resolution) checkLimits(in DocumentScope, before, after *DocumentState) (call.Conflict, error) {
	delta := DocumentUsage{Bytes: int64(len(after.Value) - len(before.Value))}
	switch was := before.current() != 0; {
	case was && after.Deleted:
		delta.Documents, delta.Deleted = -1, 1
	case !was:
		delta.Documents = 1
		if before.Deleted {
			delta.Deleted = -1
		}
	}
	if delta.Bytes > 0 || delta.Documents > 0 {
		if s.limits.Size > 0 && len(after.Value) > s.limits.Size {
			return call.ConflictSize, nil
		}
		if full, err := s.full(in, delta); full || err != nil {
			return call.ConflictRoom, err
		}
	}
	s.changed[in] = s.changed[in].plus(delta)
	return "", nil
}

// full reports whether a change would exceed the limits of its scope. delta is what the change adds to the scope.
func (s *resolution) full(in DocumentScope, delta DocumentUsage) (bool, error) {
	l := &s.limits
	if l.Count == 0 && l.Total == 0 {
		return false, nil
	}
	stored, ok := s.usage[in]
	if !ok {
		var err error
		if stored, err = s.Usage(in); err != nil {
			return false, err
		}
		s.usage[in] = stored
	}
	used := stored.plus(s.changed[in]).plus(delta)
	many := delta.Documents > 0 && (used.Documents > l.Count || delta.Deleted == 0 && used.Deleted > deletedFor*l.Count)
	return l.Count > 0 && many || l.Total > 0 && used.Bytes > l.Total, nil
}

func (r DocumentUsage) plus(o DocumentUsage) DocumentUsage {
	return DocumentUsage{r.Documents + o.Documents, r.Deleted + o.Deleted, r.Bytes + o.Bytes}
}
