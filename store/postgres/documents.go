package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/tool"
)

const (
	selectStates = `SELECT k.n, d.revision, d.deleted, d.crc, d.value, d.claim_group, d.claim_call
		FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[]) WITH ORDINALITY AS k (namespace, scope, scope_id, key, n)
		JOIN documents d ON d.namespace = k.Namespace AND d.scope = k.scope AND d.scope_id = k.scope_id AND d.key = k.key`
	selectUsage = `SELECT k.n, count(*) FILTER (WHERE NOT d.deleted), count(*) FILTER (WHERE d.deleted), sum(length(d.value))
		FROM unnest($1::bytea[], $2::text[], $3::bytea[]) WITH ORDINALITY AS k (namespace, scope, scope_id, n)
		JOIN documents d ON d.namespace = k.Namespace AND d.scope = k.scope AND d.scope_id = k.scope_id GROUP BY k.n`
)

func queueDocuments(b *pgx.Batch, p *group.Plan) {
	asked := p.AskDocuments
	var c documentColumns
	for _, d := range asked {
		c.add(d, store.DocumentState{}, 0)
	}
	b.Queue(selectStates, c.namespaces, c.scopes, c.scopeIDs, c.keys).Query(func(rows pgx.Rows) error {
		var n, crc int64
		var d store.DocumentState
		var value, claim, callID []byte
		_, err := pgx.ForEachRow(rows, []any{&n, &d.Revision, &d.Deleted, &crc, &value, &claim, &callID}, func() error {
			d.Value, d.Group, d.CallID = string(value), string(claim), string(callID)
			d.Broken = sumDocument(asked[n-1], d.Revision, d.Value) != crc // A broken row still has its revision, so the document can be replaced.
			p.Documents[asked[n-1]] = d
			return nil
		})
		return err
	})
}

func queueUsage(b *pgx.Batch, p *group.Plan) {
	asked := p.AskUsage
	var c documentColumns
	for _, in := range asked {
		c.add(group.Document{Namespace: in.Namespace, DocumentKey: store.DocumentKey{Scope: in.Scope, ScopeID: in.ID}}, store.DocumentState{}, 0)
	}
	b.Queue(selectUsage, c.namespaces, c.scopes, c.scopeIDs).Query(func(rows pgx.Rows) error {
		var n int64
		var usage store.DocumentUsage
		_, err := pgx.ForEachRow(rows, []any{&n, &usage.Documents, &usage.Deleted, &usage.Bytes}, func() error {
			p.Usage[asked[n-1]] = usage
			return nil
		})
		return err
	})
}

const upsertDocuments = `INSERT INTO documents (namespace, scope, scope_id, key, revision, deleted, changed, crc, value, claim_group, claim_call)
	SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bigint[], $9::bytea[], $10::bytea[], $11::bytea[])
	ON CONFLICT (namespace, scope, scope_id, key) DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, changed = excluded.changed,
	crc = excluded.crc, value = excluded.value, claim_group = excluded.claim_group, claim_call = excluded.claim_call`

// documentColumns holds the rows of documents as one array for each column.
type documentColumns struct {
	namespaces, scopeIDs, keys, values, groups, calls [][]byte
	scopes                                            []string
	revisions, changed, crcs                          []int64
	deleted                                           []bool
}

func (c *documentColumns) add(k group.Document, d store.DocumentState, now call.Stamp) {
	c.namespaces, c.scopes = append(c.namespaces, []byte(k.Namespace)), append(c.scopes, string(k.Scope))
	c.scopeIDs, c.keys = append(c.scopeIDs, []byte(k.ScopeID)), append(c.keys, []byte(k.Key))
	c.revisions, c.deleted, c.changed = append(c.revisions, d.Revision), append(c.deleted, d.Deleted), append(c.changed, int64(now))
	c.crcs, c.values = append(c.crcs, sumDocument(k, d.Revision, d.Value)), append(c.values, []byte(d.Value))
	c.groups, c.calls = append(c.groups, []byte(d.Group)), append(c.calls, []byte(d.CallID))
}

func queueChanged(b *pgx.Batch, p *group.Plan) {
	if len(p.Changed.Keys) == 0 {
		return
	}
	var c documentColumns
	for _, k := range p.Changed.Keys {
		c.add(k, p.Changed.Values[k], p.Now)
	}
	b.Queue(upsertDocuments, c.namespaces, c.scopes, c.scopeIDs, c.keys, c.revisions, c.deleted, c.changed, c.crcs, c.values, c.groups, c.calls)
}

func sumDocument(k group.Document, revision int64, value string) int64 {
	return int64(rows.SumDocument(k.Namespace, k.DocumentKey, revision, value))
}

const selectDocuments = `SELECT s.scope, s.scope_id, d.key, d.revision, d.crc, d.value FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS s (scope, scope_id, n)
	JOIN documents d ON d.namespace = $1 AND d.scope = s.scope AND d.scope_id = s.scope_id WHERE NOT d.deleted ORDER BY s.n, d.key`

// Documents returns all documents of these scopes. If a document is broken, Documents returns an error. A list without the broken document
// would look as if it did not exist.
func (s *Store) Documents(ctx context.Context, namespace string, scopes ...store.DocumentScope) (docs []tool.Document, err error) {
	var c documentColumns
	for _, in := range scopes {
		c.add(group.Document{Namespace: namespace, DocumentKey: store.DocumentKey{Scope: in.Scope, ScopeID: in.ID}}, store.DocumentState{}, 0)
	}
	var of string
	var scopeID, key, value []byte
	var revision, crc int64
	err = s.each(ctx, selectDocuments, []any{&of, &scopeID, &key, &revision, &crc, &value}, func() { docs = nil }, func() error {
		d := tool.Document{Scope: tool.Scope(of), ScopeID: string(scopeID), Key: string(key), Revision: revision, Value: string(value)}
		if sumDocument(group.Document{Namespace: namespace, DocumentKey: store.DocumentKey{Scope: d.Scope, ScopeID: d.ScopeID, Key: d.Key}}, revision, d.Value) != crc {
			return fmt.Errorf("%w: document %s", store.ErrCorrupt, d.Key)
		}
		docs = append(docs, d)
		return nil
	}, namespace, textArray(c.scopes), c.scopeIDs)
	return docs, err
}

// A textArray is bound as text: [bind] does not convert it.
type textArray []string
