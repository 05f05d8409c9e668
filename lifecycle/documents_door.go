package lifecycle

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/lifecycle/view"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// Document returns a document that the principal may see.
func (e *Engine) Document(ctx context.Context, p tool.Principal, scope tool.Scope, scopeID, key string) (tool.Document, error) {
	docs, err := e.Documents(ctx, p, scope, scopeID)
	if err != nil {
		return tool.Document{}, err
	}
	i := slices.IndexFunc(docs, func(d tool.Document) bool { return d.Key == key })
	if i < 0 {
		return tool.Document{}, call.Refuse(call.NotFound, "DOCUMENT_NOT_FOUND", "no document %q here", key)
	}
	return docs[i], nil
}

// Documents returns the documents of a scope that the principal may see, sorted by key.
func (e *Engine) Documents(ctx context.Context, p tool.Principal, scope tool.Scope, scopeID string) ([]tool.Document, error) {
	if err := e.reachDocuments(ctx, p, scope, scopeID, false); err != nil {
		return nil, err
	}
	docs, err := e.store.Documents(ctx, p.Namespace, store.DocumentScope{Scope: scope, ID: scopeID})
	if errors.Is(err, store.ErrCorrupt) {
		return nil, call.Refuse(call.DataLoss, "DOCUMENT_CORRUPT", "a stored document of this scope is damaged: %v; put it anew", err)
	}
	return docs, err
}

// ChangeDocument carries out a set or a delete for a principal and returns the document's revision, 0 when it is gone.
func (e *Engine) ChangeDocument(ctx context.Context, p tool.Principal, scopeID string, c tool.Command) (revision int64, err error) {
	if err := call.CheckCommand(&c); err != nil {
		return 0, call.InvalidField("document", "%v", err)
	}
	if err := e.reachDocuments(ctx, p, c.Scope, scopeID, true); err != nil {
		return 0, err
	}
	told, err := e.store.Amend(ctx, &store.Amendment{
		Namespace: p.Namespace, Documents: []store.DocumentChange{{ScopeID: scopeID, Command: c}}, Limits: e.cfg.Documents.limits(),
	})
	if err != nil {
		return 0, e.refused(err, c.Key)
	}
	n := &told[0]
	switch n.Conflict {
	case "":
		return n.Revision, nil
	case call.ConflictRevision:
		r := call.Refuse(call.FailedPrecondition, "REVISION_MISMATCH", "document %q has the revision %d, not %d; read it again", c.Key, n.Revision, *c.Expected)
		r.Metadata = map[string]string{"revision": strconv.FormatInt(n.Revision, 10)}
		r.Violations = []tool.Violation{{Field: "expected_revision", Description: "the document has the revision " + r.Metadata["revision"]}}
		return 0, r
	case call.ConflictSize:
		return 0, call.InvalidField("value", "has %d bytes; a document may have %d", len(c.Value), e.cfg.Documents.Size)
	case call.ConflictRoom:
		return 0, call.Refuse(call.FailedPrecondition, "SCOPE_FULL", "the documents of a scope may be %d with %d bytes together; delete some", e.cfg.Documents.Count, e.cfg.Documents.Total)
	}
	return 0, call.Refuse(call.FailedPrecondition, "DOCUMENT_"+string(n.Conflict), "the document %q was not changed: %s", c.Key, n.Conflict)
}

// reachDocuments refuses a principal the documents of a scope. Those of a run or thread are for who began it; viewers and
// operators see all, operators change all. Those of a namespace are for viewers and operators alone: callers reach them
// through tools, which decide what of them they show.
func (e *Engine) reachDocuments(ctx context.Context, p tool.Principal, scope tool.Scope, id string, change bool) error {
	if scope == tool.NamespaceScope {
		if !view.SeesAll(p) || change && !p.HasRole("operator") {
			return call.Refuse(call.PermissionDenied, "NAMESPACE_DOCUMENTS", "documents of the namespace are seen by viewers and operators and changed by operators")
		}
		return nil
	}
	of, what := policy.Run(p.Namespace, id), "RUN"
	if scope == tool.ThreadScope {
		of, what = policy.Thread(p.Namespace, id), "THREAD"
	}
	owner, err := e.owners.See(ctx, p, of)
	switch {
	case err != nil:
		return err
	case change && owner != p.Subject && !p.HasRole("operator"):
		return call.Refuse(call.PermissionDenied, "NOT_YOUR_"+what, "only who began it or an operator may change its documents")
	case change && what == "RUN" && e.owners.HasEnded(p.Namespace, id):
		return call.Refuse(call.FailedPrecondition, "RUN_ENDED", "run %q has ended, and its documents went with it", id)
	}
	return nil
}
