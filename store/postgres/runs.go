package postgres

import (
	"context"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/tool"
)

const upsertRun = `INSERT INTO runs (namespace, id, owner, state, reason, call_id, changed) VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT (namespace, id) DO UPDATE SET owner = excluded.owner, state = excluded.state, reason = excluded.reason, call_id = excluded.call_id, changed = excluded.changed
	WHERE excluded.state <> 'OPEN' OR runs.state <> 'BLOCKED'`

// EndRun stores the state of a run and removes its documents and policies.
func (s *Store) EndRun(_ context.Context, r store.Run) error {
	return s.Do(group.Op{Run: func(ctx context.Context, p *group.Plan) error {
		p.Runs = append(p.Runs, r)
		for _, table := range []string{"documents", "policies"} {
			if err := s.writer.exec(ctx, "DELETE FROM "+table+" WHERE namespace = $1 AND scope = $2 AND scope_id = $3", r.Namespace, tool.RunScope, r.ID); err != nil {
				return err
			}
		}
		return nil
	}})
}

const selectRecords = "SELECT position, key, call_id, created, crc, bytes, chained::int FROM records WHERE namespace = $1 AND kind = $2 AND position > $3 ORDER BY position LIMIT $4"
