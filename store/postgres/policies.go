package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

const (
	deletePolicy = "DELETE FROM policies WHERE namespace = $1 AND kind = $2 AND key = $3"
	upsertPolicy = `INSERT INTO policies (namespace, kind, key, scope, scope_id, changed, expires, crc, value) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (namespace, kind, key) DO UPDATE SET scope = excluded.scope, scope_id = excluded.scope_id, changed = excluded.changed, expires = excluded.expires,
		crc = excluded.crc, value = excluded.value`
)

func queuePolicy(b *pgx.Batch, p *store.Policy, now call.Stamp) {
	if p.Value == nil {
		b.Queue(deletePolicy, bind([]any{p.Namespace, p.Kind, p.Key})...)
		return
	}
	b.Queue(upsertPolicy, bind([]any{p.Namespace, p.Kind, p.Key, p.Scope, p.ScopeID, int64(now), p.Expires, int64(rows.SumPolicy(p)), p.Value})...)
}
