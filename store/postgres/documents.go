package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

const upsertDocuments = `INSERT INTO documents (namespace, scope, scope_id, key, revision, deleted, changed, crc, value)
	SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bigint[], $9::bytea[])
	ON CONFLICT (namespace, scope, scope_id, key) DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, changed = excluded.changed,
	crc = excluded.crc, value = excluded.value`

// documentColumns are rows of documents, turned on their side.
type documentColumns struct {
	namespaces, scopeIDs, keys, values [][]byte
	scopes                             []string
	revisions, changed, crcs           []int64
	deleted                            []bool
}

func (c *documentColumns) add(k doc, d store.DocumentState, now time.Time) {
	c.namespaces, c.scopes = append(c.namespaces, []byte(k.namespace)), append(c.scopes, string(k.Scope))
	c.scopeIDs, c.keys = append(c.scopeIDs, []byte(k.ScopeID)), append(c.keys, []byte(k.Key))
	c.revisions, c.deleted, c.changed = append(c.revisions, d.Revision), append(c.deleted, d.Deleted), append(c.changed, nanos(now))
	c.crcs, c.values = append(c.crcs, sumDocument(k, d.Revision, d.Value)), append(c.values, []byte(d.Value))
}

func (g *group) queueWritten(b *pgx.Batch) {
	if len(g.written.keys) == 0 {
		return
	}
	var c documentColumns
	for _, k := range g.written.keys {
		c.add(k, g.written.values[k], g.now)
	}
	b.Queue(upsertDocuments, c.namespaces, c.scopes, c.scopeIDs, c.keys, c.revisions, c.deleted, c.changed, c.crcs, c.values)
}

func sumDocument(k doc, revision int64, value string) int64 {
	return int64(sum([]byte(value), k.namespace, string(k.Scope), k.ScopeID, k.Key, strconv.FormatInt(revision, 10)))
}

const selectDocuments = "SELECT key, revision, crc, value FROM documents WHERE namespace = $1 AND scope = $2 AND scope_id = $3 AND NOT deleted ORDER BY key"

// Documents returns all documents of one scope. A broken one refuses them all: a snapshot without it would be read as if
// it were not there.
func (s *Store) Documents(ctx context.Context, namespace string, scope tool.Scope, scopeID string) (docs []tool.Document, err error) {
	var key, value []byte
	var revision, crc int64
	err = s.each(ctx, selectDocuments, []any{&key, &revision, &crc, &value}, func() { docs = nil }, func() error {
		d := tool.Document{Scope: scope, ScopeID: scopeID, Key: string(key), Revision: revision, Value: string(value)}
		if sumDocument(doc{namespace, store.DocumentKey{Scope: scope, ScopeID: scopeID, Key: d.Key}}, revision, d.Value) != crc {
			return fmt.Errorf("%w: document %s", store.ErrCorrupt, d.Key)
		}
		docs = append(docs, d)
		return nil
	}, namespace, scope, scopeID)
	return docs, err
}
