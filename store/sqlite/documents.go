package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// readDocument reads what a command goes to. A broken row still has its revision, so it can be replaced.
func (w *writer) readDocument(namespace string, k store.DocumentKey) (d store.DocumentState, err error) {
	err = query(w.conn, "SELECT revision, deleted FROM documents WHERE namespace = ? AND scope = ? AND scope_id = ? AND key = ?", func(st *sqlite.Stmt) error {
		d.Revision, d.Deleted = st.ColumnInt64(0), st.ColumnBool(1)
		return nil
	}, namespace, string(k.Scope), k.ScopeID, k.Key)
	return d, err
}

func (w *writer) writeDocuments(namespace string, writes map[store.DocumentKey]store.DocumentState, now time.Time) error {
	for k, d := range writes {
		err := exec(w.conn, `INSERT INTO documents (namespace, scope, scope_id, key, revision, deleted, changed, crc, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, changed = excluded.changed, crc = excluded.crc, value = excluded.value`,
			namespace, string(k.Scope), k.ScopeID, k.Key, d.Revision, d.Deleted, nanos(now), sumDocument(namespace, k, d.Revision, d.Value), d.Value)
		if err != nil {
			return err
		}
	}
	return nil
}

func sumDocument(namespace string, k store.DocumentKey, revision int64, value string) uint32 {
	return sum([]byte(value), namespace, string(k.Scope), k.ScopeID, k.Key, strconv.FormatInt(revision, 10))
}

const selectDocuments = "SELECT key, revision, crc, value FROM documents WHERE namespace = ? AND scope = ? AND scope_id = ? AND deleted = 0 ORDER BY key"

// Documents returns all documents of one scope. A broken one refuses them all: a snapshot without it would be read as
// if it were not there.
func (s *Store) Documents(ctx context.Context, namespace string, scope tool.Scope, scopeID string) (docs []tool.Document, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, selectDocuments, func(st *sqlite.Stmt) error {
			d := tool.Document{Scope: scope, ScopeID: scopeID, Key: st.ColumnText(0), Revision: st.ColumnInt64(1), Value: st.ColumnText(3)}
			if sumDocument(namespace, store.DocumentKey{Scope: scope, ScopeID: scopeID, Key: d.Key}, d.Revision, d.Value) != uint32(st.ColumnInt64(2)) {
				return fmt.Errorf("%w: document %s", store.ErrCorrupt, d.Key)
			}
			docs = append(docs, d)
			return nil
		}, namespace, string(scope), scopeID)
	})
	return docs, err
}
