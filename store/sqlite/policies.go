package sqlite

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

func (w *writer) writePolicy(p *store.Policy, now call.Stamp) error {
	if p.Value == nil {
		return exec(w.conn, "DELETE FROM policies WHERE namespace = ? AND kind = ? AND key = ?", p.Namespace, p.Kind, p.Key)
	}
	return exec(w.conn, `INSERT INTO policies (namespace, kind, key, scope, scope_id, changed, expires, crc, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET scope = excluded.scope, scope_id = excluded.scope_id, changed = excluded.changed, expires = excluded.expires,
		crc = excluded.crc, value = excluded.value`,
		p.Namespace, p.Kind, p.Key, string(p.Scope), p.ScopeID, int64(now), p.Expires, rows.SumPolicy(p), p.Value)
}

const (
	ofPolicy             = memberBits + " AND m.namespace = policies.namespace AND m.name = policies.scope_id"
	deleteEndedPolicies  = "DELETE FROM policies WHERE expires < ?"
	deleteRunPolicies    = "DELETE FROM policies WHERE scope = 'RUN' AND changed < ? AND " + noCalls + "'run'" + ofPolicy + ")"
	deleteThreadPolicies = "DELETE FROM policies WHERE scope = 'THREAD' AND changed < ? AND " + noCalls + "'thread'" + ofPolicy + ")"
)

// trimPolicies removes policies that expired before a time, and policies that were set before it for runs and threads without calls.
func (w *writer) trimPolicies(before call.Stamp) error {
	for _, text := range []string{deleteEndedPolicies, deleteRunPolicies, deleteThreadPolicies} {
		if err := exec(w.conn, text, int64(before)); err != nil {
			return err
		}
	}
	return nil
}
