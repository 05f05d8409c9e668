package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/tool"
)

const (
	selectDocument = "SELECT revision, deleted, crc, value, claim_group, claim_call FROM documents WHERE namespace = ? AND scope = ? AND scope_id = ? AND key = ?"
	selectUsage    = "SELECT count(*) - coalesce(sum(deleted), 0), coalesce(sum(deleted), 0), coalesce(sum(octet_length(value)), 0) FROM documents WHERE namespace = ? AND scope = ? AND scope_id = ?"
)

// readDocuments reads the documents and the document counts that a plan needs. A broken row still has its revision, so the document can be
// replaced.
func (w *writer) readDocuments(p *group.Plan) error {
	for _, k := range p.AskDocuments {
		err := query(w.conn, selectDocument, func(st *sqlite.Stmt) error {
			d := store.DocumentState{Revision: st.ColumnInt64(0), Deleted: st.ColumnBool(1), Value: st.ColumnText(3), Group: st.ColumnText(4), CallID: st.ColumnText(5)}
			d.Broken = rows.SumDocument(k.Namespace, k.DocumentKey, d.Revision, d.Value) != uint32(st.ColumnInt64(2))
			p.Documents[k] = d
			return nil
		}, k.Namespace, string(k.Scope), k.ScopeID, k.Key)
		if err != nil {
			return err
		}
	}
	for _, in := range p.AskUsage {
		err := query(w.conn, selectUsage, func(st *sqlite.Stmt) error {
			p.Usage[in] = store.DocumentUsage{Documents: st.ColumnInt(0), Deleted: st.ColumnInt(1), Bytes: st.ColumnInt64(2)}
			return nil
		}, in.Namespace, string(in.Scope), in.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeDocument(k group.Document, d store.DocumentState, now call.Stamp) error {
	return exec(w.conn, `INSERT INTO documents (namespace, scope, scope_id, key, revision, deleted, changed, crc, value, claim_group, claim_call) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, changed = excluded.changed, crc = excluded.crc, value = excluded.value,
			claim_group = excluded.claim_group, claim_call = excluded.claim_call`,
		k.Namespace, string(k.Scope), k.ScopeID, k.Key, d.Revision, d.Deleted, int64(now), rows.SumDocument(k.Namespace, k.DocumentKey, d.Revision, d.Value), d.Value, d.Group, d.CallID)
}

const selectDocuments = "SELECT key, revision, crc, value FROM documents WHERE namespace = ? AND scope = ? AND scope_id = ? AND deleted = 0 ORDER BY key"

// Documents returns all documents of these scopes. If a document is broken, Documents returns an error. A list without the broken document
// would look as if that document did not exist.
func (s *Store) Documents(ctx context.Context, namespace string, scopes ...store.DocumentScope) (docs []tool.Document, err error) {
	k, mayKeep := keyOfDocuments(namespace, scopes)
	docs, age, ok := s.documents.get(k)
	if ok && mayKeep {
		return docs, s.Refusal()
	}
	docs = nil
	read := s.readAll
	if len(scopes) == 1 {
		read = s.read
	}
	err = read(ctx, func(conn *sqlite.Conn) error {
		for _, in := range scopes {
			err := query(conn, selectDocuments, func(st *sqlite.Stmt) error {
				d := tool.Document{Scope: in.Scope, ScopeID: in.ID, Key: st.ColumnText(0), Revision: st.ColumnInt64(1), Value: st.ColumnText(3)}
				if rows.SumDocument(namespace, store.DocumentKey{Scope: in.Scope, ScopeID: in.ID, Key: d.Key}, d.Revision, d.Value) != uint32(st.ColumnInt64(2)) {
					return fmt.Errorf("%w: document %s", store.ErrCorrupt, d.Key)
				}
				docs = append(docs, d)
				return nil
			}, namespace, string(in.Scope), in.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && mayKeep {
		s.documents.put(k, docs, age)
	}
	return docs, err
}
