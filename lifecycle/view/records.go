package view

import (
	"context"
	"errors"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/refusal"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// A Store is the part of the journal that Records reads.
type Store interface {
	Calls(ctx context.Context, q call.Query) (call.Page, error)
	Children(ctx context.Context, namespace string, parents []string) ([]*call.Call, error)
	Run(ctx context.Context, namespace, id string) (*store.Run, error)
	Expiring(ctx context.Context, q call.Query) (call.Page, error)
	CountsOf(ctx context.Context, namespace string) (statuses map[call.Status]int, actions map[string]int, err error)
	RunCounts(ctx context.Context, namespace, run string) (map[call.Status]int, error)
	Documents(ctx context.Context, namespace string, scopes ...store.DocumentScope) ([]tool.Document, error)
}

// Owners finds the owners of runs and threads.
type Owners interface {
	// See returns the owner of a run or thread. It returns an error when the principal may not see the run or thread.
	See(ctx context.Context, p tool.Principal, scope tool.Scope, id string) (owner string, err error)
}

// Modes reads the permission modes in force.
type Modes interface {
	// Modes returns the modes of a run and a thread. An empty string means the default.
	Modes(namespace, run, thread string) (ofRun, ofThread string)
}

// A Config holds the sources of records. All fields are required.
type Config struct {
	Store  Store
	Owners Owners
	Modes  Modes
	// Call returns the current record of a call, which may be newer than the stored one.
	Call func(ctx context.Context, key call.Key) (*call.Call, error)
	// Settle waits until the store has all events that were published earlier.
	Settle func()
}

// Records reads calls, runs and documents for principals. It returns only data that the principal may see.
type Records struct{ cfg Config }

// NewRecords returns a Records.
func NewRecords(c Config) *Records { return &Records{c} }

// Get returns the current record of a call. It returns the error "not found" for a call that the principal may not see.
func (r *Records) Get(ctx context.Context, p tool.Principal, id string) (*call.Call, error) {
	c, err := r.cfg.Call(ctx, call.Key{Namespace: p.Namespace, ID: id})
	if err == nil && !Sees(p, c) {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, refusal.OfCall(err, id)
	}
	return Call(p, c), nil
}

// List returns a page of calls. A principal with a role for the whole namespace gets all calls; other principals get their own. An approver
// that queries suspended calls gets the calls that it may answer. A page may have fewer calls than the query's limit, because List removes
// calls that the principal may not see.
func (r *Records) List(ctx context.Context, p tool.Principal, q call.Query) (call.Page, error) {
	r.cfg.Settle()
	q.Namespace = p.Namespace
	if !SeesAll(p) && !(p.HasRole("approver") && len(q.Statuses) == 1 && q.Statuses[0] == call.Suspended) {
		if q.Caller != "" && q.Caller != p.Subject {
			return call.Page{}, nil
		}
		q.Caller = p.Subject
	}
	list := r.cfg.Store.Calls
	if q.ExpiresFirst {
		list = r.cfg.Store.Expiring
	}
	page, err := list(ctx, q)
	page.Positions = nil // Positions would not match the calls, because the next line removes calls.
	page.Calls = slices.DeleteFunc(page.Calls, func(c *call.Call) bool { return !Sees(p, c) || q.ExpiresFirst && !q.Waits(c) })
	if q.Caller != p.Subject && !SeesAll(p) {
		page.Corrupt = nil // For a damaged record it is unknown which principals may see it.
	}
	for i, c := range page.Calls {
		page.Calls[i] = Call(p, c)
	}
	return page, err
}

// state returns the state of a run, without its children. It returns the error "not found" for an unknown run.
func (r *Records) state(ctx context.Context, p tool.Principal, id string) (*call.RunSummary, error) {
	owner, err := r.cfg.Owners.See(ctx, p, tool.RunScope, id)
	if err != nil {
		return nil, err
	}
	counts, err := r.cfg.Store.RunCounts(ctx, p.Namespace, id)
	if err != nil {
		return nil, err
	}
	run := &call.RunSummary{ID: id, State: call.RunOpen, Counts: counts, Owner: owner}
	run.Mode, _ = r.cfg.Modes.Modes(p.Namespace, id, "")
	if counts[call.Suspended] > 0 {
		run.State = call.RunWaiting
	}
	stored, err := r.cfg.Store.Run(ctx, p.Namespace, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return nil, err
	case stored.State != call.RunOpen:
		run.State, run.Reason, run.BlockedBy, run.Changed = stored.State, stored.Reason, stored.CallID, stored.Changed.Time()
	}
	run.RunActivity, err = r.activity(ctx, p, call.Query{Namespace: p.Namespace, Run: id}, counts[call.Suspended] > 0)
	return run, err
}

// Document returns one document if the principal may see it.
func (r *Records) Document(ctx context.Context, p tool.Principal, scope tool.Scope, scopeID, key string) (tool.Document, error) {
	docs, err := r.Documents(ctx, p, scope, scopeID)
	if err != nil {
		return tool.Document{}, err
	}
	i := slices.IndexFunc(docs, func(d tool.Document) bool { return d.Key == key })
	if i < 0 {
		return tool.Document{}, call.Refuse(call.NotFound, "DOCUMENT_NOT_FOUND", "no document %q here", key)
	}
	return docs[i], nil
}

// Documents returns the documents of a scope that the principal may see, sorted by key. Viewers and operators see all documents. A caller
// sees only the documents of the runs and threads that it began. It cannot see documents of the namespace here; its tools can read them.
func (r *Records) Documents(ctx context.Context, p tool.Principal, scope tool.Scope, scopeID string) ([]tool.Document, error) {
	if scope == tool.NamespaceScope {
		if !SeesAll(p) {
			return nil, NamespaceDocuments()
		}
	} else if _, err := r.cfg.Owners.See(ctx, p, scope, scopeID); err != nil {
		return nil, err
	}
	docs, err := r.cfg.Store.Documents(ctx, p.Namespace, store.DocumentScope{Scope: scope, ID: scopeID})
	if errors.Is(err, store.ErrCorrupt) {
		return nil, call.Refuse(call.DataLoss, "DOCUMENT_CORRUPT", "a stored document of this scope is damaged: %v; store it again", err)
	}
	return docs, err
}

// NamespaceDocuments returns the refusal to show the documents of a namespace.
func NamespaceDocuments() error {
	return call.Refuse(call.PermissionDenied, "NAMESPACE_DOCUMENTS", "viewers and operators may read the documents of the namespace; operators may change them")
}

// Feed returns the feed of a run or of a thread. When both ids are empty, it returns the feed of the whole namespace. A principal that may
// not see all calls of its namespace gets a feed with only its own calls.
func Feed(p tool.Principal, run, thread string) (store.Feed, error) {
	f := store.Feed{Namespace: p.Namespace, Run: run, Thread: thread}
	if !SeesAll(p) {
		f.Caller = p.Subject
		if run == "" && thread == "" {
			return f, call.Refuse(call.PermissionDenied, "ROLE_REQUIRED", "watching the namespace needs the role viewer or operator")
		}
	}
	return f, nil
}

// FeedEvents returns the events of a feed as a principal may see them. It treats all calls as the principal's own. This is safe: only a
// principal that may see everything gets a feed with calls of others.
func FeedEvents(p tool.Principal, events []call.Event) []call.Event {
	if !Asks(events) {
		return events
	}
	return Events(p, &call.Call{Namespace: p.Namespace, Caller: p}, events)
}
