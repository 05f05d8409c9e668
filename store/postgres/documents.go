package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// doc is a document of any namespace.
type doc struct {
	namespace string
	store.DocumentKey
}

// scope is where documents are kept, of any namespace.
type scope struct {
	namespace string
	store.DocumentScope
}

// asksDocuments notes which documents a change goes to, and the scopes that it holds to limits.
func (g *group) asksDocuments(a *asked, c *store.Change) {
	for i := range c.Documents {
		k := doc{c.Name().Namespace, c.Documents[i].Key()}
		if _, ok := g.documents[k]; !ok {
			g.documents[k] = store.DocumentState{}
			a.documents = append(a.documents, k)
		}
		if in := (scope{k.namespace, k.In()}); c.Limits.Count > 0 || c.Limits.Total > 0 {
			if _, ok := g.rooms[in]; !ok {
				g.rooms[in] = store.DocumentRoom{}
				a.rooms = append(a.rooms, in)
			}
		}
	}
}

const (
	selectStates = `SELECT k.n, d.revision, d.deleted, d.crc, d.value, d.claim_group, d.claim_call
		FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[]) WITH ORDINALITY AS k (namespace, scope, scope_id, key, n)
		JOIN documents d ON d.namespace = k.namespace AND d.scope = k.scope AND d.scope_id = k.scope_id AND d.key = k.key`
	selectRooms = `SELECT k.n, count(*) FILTER (WHERE NOT d.deleted), count(*) FILTER (WHERE d.deleted), sum(length(d.value))
		FROM unnest($1::bytea[], $2::text[], $3::bytea[]) WITH ORDINALITY AS k (namespace, scope, scope_id, n)
		JOIN documents d ON d.namespace = k.namespace AND d.scope = k.scope AND d.scope_id = k.scope_id GROUP BY k.n`
)

func (g *group) queueDocuments(b *pgx.Batch, asked []doc) {
	var c documentColumns
	for _, d := range asked {
		c.add(d, store.DocumentState{}, time.Time{})
	}
	b.Queue(selectStates, c.namespaces, c.scopes, c.scopeIDs, c.keys).Query(func(rows pgx.Rows) error {
		var n, crc int64
		var d store.DocumentState
		var value, group, callID []byte
		_, err := pgx.ForEachRow(rows, []any{&n, &d.Revision, &d.Deleted, &crc, &value, &group, &callID}, func() error {
			d.Value, d.Group, d.CallID = string(value), string(group), string(callID)
			d.Broken = sumDocument(asked[n-1], d.Revision, d.Value) != crc // it still has its revision, so it can be replaced
			g.documents[asked[n-1]] = d
			return nil
		})
		return err
	})
}

func (g *group) queueRooms(b *pgx.Batch, asked []scope) {
	var c documentColumns
	for _, in := range asked {
		c.add(doc{in.namespace, store.DocumentKey{Scope: in.Scope, ScopeID: in.ID}}, store.DocumentState{}, time.Time{})
	}
	b.Queue(selectRooms, c.namespaces, c.scopes, c.scopeIDs).Query(func(rows pgx.Rows) error {
		var n int64
		var room store.DocumentRoom
		_, err := pgx.ForEachRow(rows, []any{&n, &room.Documents, &room.Deleted, &room.Bytes}, func() error {
			g.rooms[asked[n-1]] = room
			return nil
		})
		return err
	})
}

// documentsOf shows the documents of a namespace as the group's changes leave them.
type documentsOf struct {
	g         *group
	namespace string
}

// Document implements [store.DocumentReader].
func (r documentsOf) Document(k store.DocumentKey) (store.DocumentState, error) {
	return r.g.documents[doc{r.namespace, k}], nil
}

// Room implements [store.DocumentReader].
func (r documentsOf) Room(in store.DocumentScope) (store.DocumentRoom, error) {
	return r.g.rooms[scope{r.namespace, in}], nil
}

// resolve works out what a change's documents become, tells its callbacks once, and encodes what they left.
func (g *group) resolve(o *op) (map[store.DocumentKey]store.DocumentState, error) {
	c := o.change
	if len(c.Documents) == 0 {
		return nil, nil
	}
	writes, told, err := c.ResolveDocuments(documentsOf{g, c.Name().Namespace})
	if err != nil {
		return nil, err
	}
	if o.told == nil {
		o.told = slices.Clone(told)
		if c.OnDocuments != nil {
			c.OnDocuments(told)
		}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		return writes, o.encode()
	}
	// The group is tried again, and what the callbacks have written into the events must be what happens.
	same := func(a, b call.DocumentNotice) bool {
		a.Expected, b.Expected = nil, nil
		return a == b
	}
	if !slices.EqualFunc(told, o.told, same) {
		return nil, fmt.Errorf("%w: its documents changed while it was written", store.ErrConflict)
	}
	return writes, nil
}

// write notes what becomes of a document, for the changes after this one too.
func (g *group) write(k doc, d store.DocumentState) {
	before, in := g.documents[k], scope{k.namespace, k.In()}
	if room, ok := g.rooms[in]; ok {
		count := func(d *store.DocumentState, by int) {
			switch {
			case d.Revision == 0:
			case d.Deleted:
				room.Deleted += by
			default:
				room.Documents += by
			}
			room.Bytes += int64(by * len(d.Value))
		}
		count(&before, -1)
		count(&d, 1)
		g.rooms[in] = room
	}
	g.documents[k] = d
	g.written.put(k, d)
}

const upsertDocuments = `INSERT INTO documents (namespace, scope, scope_id, key, revision, deleted, changed, crc, value, claim_group, claim_call)
	SELECT * FROM unnest($1::bytea[], $2::text[], $3::bytea[], $4::bytea[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bigint[], $9::bytea[], $10::bytea[], $11::bytea[])
	ON CONFLICT (namespace, scope, scope_id, key) DO UPDATE SET revision = excluded.revision, deleted = excluded.deleted, changed = excluded.changed,
	crc = excluded.crc, value = excluded.value, claim_group = excluded.claim_group, claim_call = excluded.claim_call`

// documentColumns are rows of documents, turned on their side.
type documentColumns struct {
	namespaces, scopeIDs, keys, values, groups, calls [][]byte
	scopes                                            []string
	revisions, changed, crcs                          []int64
	deleted                                           []bool
}

func (c *documentColumns) add(k doc, d store.DocumentState, now time.Time) {
	c.namespaces, c.scopes = append(c.namespaces, []byte(k.namespace)), append(c.scopes, string(k.Scope))
	c.scopeIDs, c.keys = append(c.scopeIDs, []byte(k.ScopeID)), append(c.keys, []byte(k.Key))
	c.revisions, c.deleted, c.changed = append(c.revisions, d.Revision), append(c.deleted, d.Deleted), append(c.changed, nanos(now))
	c.crcs, c.values = append(c.crcs, sumDocument(k, d.Revision, d.Value)), append(c.values, []byte(d.Value))
	c.groups, c.calls = append(c.groups, []byte(d.Group)), append(c.calls, []byte(d.CallID))
}

func (g *group) queueWritten(b *pgx.Batch) {
	if len(g.written.keys) == 0 {
		return
	}
	var c documentColumns
	for _, k := range g.written.keys {
		c.add(k, g.written.values[k], g.now)
	}
	b.Queue(upsertDocuments, c.namespaces, c.scopes, c.scopeIDs, c.keys, c.revisions, c.deleted, c.changed, c.crcs, c.values, c.groups, c.calls)
}

func sumDocument(k doc, revision int64, value string) int64 {
	return int64(sum([]byte(value), k.namespace, string(k.Scope), k.ScopeID, k.Key, strconv.FormatInt(revision, 10)))
}

const selectDocuments = `SELECT s.scope, s.scope_id, d.key, d.revision, d.crc, d.value FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY AS s (scope, scope_id, n)
	JOIN documents d ON d.namespace = $1 AND d.scope = s.scope AND d.scope_id = s.scope_id WHERE NOT d.deleted ORDER BY s.n, d.key`

// Documents returns all documents of these scopes. A broken one refuses them all: a snapshot without it would be read as
// if it were not there.
func (s *Store) Documents(ctx context.Context, namespace string, scopes ...store.DocumentScope) (docs []tool.Document, err error) {
	var c documentColumns
	for _, in := range scopes {
		c.add(doc{namespace, store.DocumentKey{Scope: in.Scope, ScopeID: in.ID}}, store.DocumentState{}, time.Time{})
	}
	var of string
	var scopeID, key, value []byte
	var revision, crc int64
	err = s.each(ctx, selectDocuments, []any{&of, &scopeID, &key, &revision, &crc, &value}, func() { docs = nil }, func() error {
		d := tool.Document{Scope: tool.Scope(of), ScopeID: string(scopeID), Key: string(key), Revision: revision, Value: string(value)}
		if sumDocument(doc{namespace, store.DocumentKey{Scope: d.Scope, ScopeID: d.ScopeID, Key: d.Key}}, revision, d.Value) != crc {
			return fmt.Errorf("%w: document %s", store.ErrCorrupt, d.Key)
		}
		docs = append(docs, d)
		return nil
	}, namespace, textArray(c.scopes), c.scopeIDs)
	return docs, err
}

// textArray is text that [bind] leaves alone.
type textArray []string
