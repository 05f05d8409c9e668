package sqlite

import (
	"context"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

func (w *writer) writePolicy(p *store.Policy, now time.Time) error {
	if p.Value == nil {
		return exec(w.conn, "DELETE FROM policies WHERE namespace = ? AND kind = ? AND key = ?", p.Namespace, p.Kind, p.Key)
	}
	return exec(w.conn, `INSERT INTO policies (namespace, kind, key, scope, scope_id, changed, expires, crc, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET scope = excluded.scope, scope_id = excluded.scope_id, changed = excluded.changed, expires = excluded.expires,
		crc = excluded.crc, value = excluded.value`,
		p.Namespace, p.Kind, p.Key, string(p.Scope), p.ScopeID, nanos(now), p.Expires, sumPolicy(p), p.Value)
}

func sumPolicy(p *store.Policy) uint32 {
	return sum(p.Value, p.Namespace, p.Kind, p.Key, string(p.Scope), p.ScopeID)
}

const selectPolicies = "SELECT namespace, kind, key, scope, scope_id, expires, crc, value FROM policies WHERE (namespace, kind, key) > (?, ?, ?) ORDER BY namespace, kind, key LIMIT ?"

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
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, selectPolicies, func(st *sqlite.Stmt) error {
				p := found{Policy: store.Policy{Namespace: st.ColumnText(0), Kind: st.ColumnText(1), Key: st.ColumnText(2), Scope: tool.Scope(st.ColumnText(3)),
					ScopeID: st.ColumnText(4), Expires: columnTime(st, 5), Value: columnBytes(st, 7)}}
				if sumPolicy(&p.Policy) != uint32(st.ColumnInt64(6)) {
					p.err = fmt.Errorf("%w: policy %s %s", store.ErrCorrupt, p.Kind, p.Key)
				}
				policies = append(policies, p)
				return nil
			}, last.Namespace, last.Kind, last.Key, page)
		})
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

const (
	ofPolicy             = memberBits + " AND m.namespace = policies.namespace AND m.name = policies.scope_id"
	deleteEndedPolicies  = "DELETE FROM policies WHERE expires < ?"
	deleteRunPolicies    = "DELETE FROM policies WHERE scope = 'RUN' AND changed < ? AND " + noCalls + "'run'" + ofPolicy + ")"
	deleteThreadPolicies = "DELETE FROM policies WHERE scope = 'THREAD' AND changed < ? AND " + noCalls + "'thread'" + ofPolicy + ")"
)

// trimPolicies forgets what ended before, and what was set for runs and threads that nothing is left of.
func (w *writer) trimPolicies(before time.Time) error {
	for _, text := range []string{deleteEndedPolicies, deleteRunPolicies, deleteThreadPolicies} {
		if err := exec(w.conn, text, nanos(before)); err != nil {
			return err
		}
	}
	return nil
}
