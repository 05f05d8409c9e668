package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

const (
	deletePolicy = "DELETE FROM policies WHERE namespace = $1 AND kind = $2 AND key = $3"
	upsertPolicy = `INSERT INTO policies (namespace, kind, key, scope, scope_id, changed, expires, crc, value) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (namespace, kind, key) DO UPDATE SET scope = excluded.scope, scope_id = excluded.scope_id, changed = excluded.changed, expires = excluded.expires,
		crc = excluded.crc, value = excluded.value`
)

func queuePolicy(b *pgx.Batch, p *store.Policy, now time.Time) {
	if p.Value == nil {
		b.Queue(deletePolicy, bind([]any{p.Namespace, p.Kind, p.Key})...)
		return
	}
	b.Queue(upsertPolicy, bind([]any{p.Namespace, p.Kind, p.Key, p.Scope, p.ScopeID, now.UnixNano(), p.Expires, sumPolicy(p), p.Value})...)
}

func sumPolicy(p *store.Policy) int64 {
	return int64(sum(p.Value, p.Namespace, p.Kind, p.Key, string(p.Scope), p.ScopeID))
}

const selectPolicies = "SELECT namespace, kind, key, scope, scope_id, expires, crc, value FROM policies WHERE (namespace, kind, key) > ($1, $2, $3) ORDER BY namespace, kind, key LIMIT $4"

// Policies visits every policy. A broken one is given with its error.
func (s *Store) Policies(ctx context.Context, visit func(store.Policy, error) error) error {
	type found struct {
		store.Policy
		err error
	}
	const page = 500
	var last store.Policy
	for {
		var policies []found
		var namespace, kind, key, scopeID, value []byte
		var scope string
		var expires *int64
		var crc int64
		err := s.each(ctx, selectPolicies, []any{&namespace, &kind, &key, &scope, &scopeID, &expires, &crc, &value}, func() { policies = nil }, func() error {
			p := found{Policy: store.Policy{Namespace: string(namespace), Kind: string(kind), Key: string(key), Scope: tool.Scope(scope), ScopeID: string(scopeID),
				Expires: timeOf(expires), Value: value}}
			if sumPolicy(&p.Policy) != crc {
				p.err = fmt.Errorf("%w: policy %s %s", store.ErrCorrupt, p.Kind, p.Key)
			}
			policies = append(policies, p)
			return nil
		}, last.Namespace, last.Kind, last.Key, page)
		if err != nil {
			return err
		}
		for _, p := range policies {
			if err := visit(p.Policy, p.err); err != nil {
				return err
			}
			last = p.Policy
		}
		if len(policies) < page {
			return nil
		}
	}
}
