package documents

import (
	"context"
	"strconv"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// An Amender stores document changes that belong to no call.
type Amender interface {
	Amend(ctx context.Context, a *store.Amendment) ([]call.DocumentNotice, error)
}

// Owners answers questions about runs and threads. See returns the owner, or an error when the principal may not see the run or thread.
// HasEnded reports whether a run has ended.
type Owners interface {
	See(ctx context.Context, p tool.Principal, scope tool.Scope, id string) (owner string, err error)
	HasEnded(namespace, run string) bool
}

// An Editor changes documents for clients. It may be used concurrently.
type Editor struct {
	Store    Amender
	Owners   Owners
	Settings *Settings
	Refused  func(err error, id string) error // converts an error of the store into the error for the client
}

// ChangeDocument executes a set or delete command for a principal. It returns the document's new revision, or 0 after a delete.
func (s *Editor) ChangeDocument(ctx context.Context, p tool.Principal, scopeID string, c tool.Command) (revision int64, err error) {
	if err := call.CheckCommand(&c); err != nil {
		return 0, call.InvalidField("document", "%v", err)
	}
	if err := s.mayChange(ctx, p, c.Scope, scopeID); err != nil {
		return 0, err
	}
	notices, err := s.Store.Amend(ctx, &store.Amendment{
		Namespace: p.Namespace, Documents: []store.DocumentChange{{ScopeID: scopeID, Command: c}}, Limits: s.Settings.Limits(),
	})
	if err != nil {
		return 0, s.Refused(err, c.Key)
	}
	n := &notices[0]
	switch n.Conflict {
	case "":
		return n.Revision, nil
	case call.ConflictRevision:
		r := call.Refuse(call.FailedPrecondition, "REVISION_MISMATCH", "document %q has the revision %d, not %d; read it again", c.Key, n.Revision, *c.Expected)
		r.Metadata = map[string]string{"revision": strconv.FormatInt(n.Revision, 10)}
		r.Violations = []tool.Violation{{Field: "expected_revision", Description: "the document has the revision " + r.Metadata["revision"]}}
		return 0, r
	case call.ConflictSize:
		return 0, call.InvalidField("value", "has %d bytes; a document has at most %d", len(c.Value), s.Settings.Size)
	case call.ConflictRoom:
		return 0, call.Refuse(call.FailedPrecondition, "SCOPE_FULL", "a scope has at most %d documents with %d bytes in total; delete some", s.Settings.Count, s.Settings.Total)
	}
	return 0, call.Refuse(call.FailedPrecondition, "DOCUMENT_"+string(n.Conflict), "the document %q was not changed: %s", c.Key, n.Conflict)
}

// mayChange returns an error when p may not change documents of the scope. The caller that began a run or thread may change its documents.
// Operators may change all documents; only they may change documents of the namespace.
func (s *Editor) mayChange(ctx context.Context, p tool.Principal, scope tool.Scope, id string) error {
	operates := p.HasRole("operator")
	if scope == tool.NamespaceScope {
		if !operates {
			return view.NamespaceDocuments()
		}
		return nil
	}
	owner, err := s.Owners.See(ctx, p, scope, id)
	switch {
	case err != nil:
		return err
	case owner != p.Subject && !operates:
		return call.Refuse(call.PermissionDenied, "NOT_YOUR_"+string(scope), "only its owner or an operator may change its documents")
	case scope == tool.RunScope && s.Owners.HasEnded(p.Namespace, id):
		return call.Refuse(call.FailedPrecondition, "RUN_ENDED", "run %q has ended, and its documents were deleted", id)
	}
	return nil
}
