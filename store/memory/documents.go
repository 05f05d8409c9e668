package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// documentsOf reads the documents of a namespace.
type documentsOf struct {
	st        *state
	namespace string
}

func (r documentsOf) Document(k store.DocumentKey) (store.DocumentState, error) {
	return r.st.documents[doc{r.namespace, k}].DocumentState, nil
}

func (r documentsOf) Usage(in store.DocumentScope) (usage store.DocumentUsage, err error) {
	for k, d := range r.st.documents {
		switch {
		case k.namespace != r.namespace || k.In() != in:
		case d.Deleted:
			usage.Deleted++
		default:
			usage.Documents++
			usage.Bytes += int64(len(d.Value))
		}
	}
	return usage, nil
}

// Documents returns the documents of these scopes.
func (s *Store) Documents(ctx context.Context, namespace string, scopes ...store.DocumentScope) (docs []tool.Document, err error) {
	err = s.read(ctx, func(st *state) error {
		for k, d := range st.documents {
			if k.namespace == namespace && !d.Deleted && slices.Contains(scopes, k.In()) {
				docs = append(docs, tool.Document{Scope: k.Scope, ScopeID: k.ScopeID, Key: k.Key, Value: d.Value, Revision: d.Revision})
			}
		}
		return nil
	})
	slices.SortFunc(docs, func(a, b tool.Document) int {
		return cmp.Or(slices.Index(scopes, store.DocumentScope{Scope: a.Scope, ID: a.ScopeID})-slices.Index(scopes, store.DocumentScope{Scope: b.Scope, ID: b.ScopeID}), cmp.Compare(a.Key, b.Key))
	})
	return docs, err
}

func (d doc) inRun() bool { return d.Scope == tool.RunScope }
