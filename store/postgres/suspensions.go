package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

const upsertSuspensions = `INSERT INTO suspensions (namespace, id, call, action, open, expires)
	SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[], $5::boolean[], $6::bigint[])
	ON CONFLICT (namespace, id) DO UPDATE SET action = excluded.action, open = excluded.open, expires = excluded.expires WHERE suspensions.call = excluded.call`

func queueSuspensions(b *pgx.Batch, p *group.Plan) {
	if len(p.Suspensions.Keys) == 0 {
		return
	}
	var namespaces, ids, actions [][]byte
	var calls []int64
	var open []bool
	var expires []*int64
	for _, k := range p.Suspensions.Keys {
		s := p.Suspensions.Values[k]
		namespaces, ids, actions = append(namespaces, []byte(k.Namespace)), append(ids, []byte(k.ID)), append(actions, []byte(s.Action))
		calls, open, expires = append(calls, s.Call), append(open, s.Open), append(expires, optional(int64(s.Expires)))
	}
	b.Queue(upsertSuspensions, namespaces, ids, calls, actions, open, expires)
}

const insertDecisions = `INSERT INTO decisions (namespace, id, crc, decision) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[])`

func queueAnswers(b *pgx.Batch, p *group.Plan) {
	if len(p.Answers) == 0 {
		return
	}
	var namespaces, ids, decisions [][]byte
	var crcs []int64
	for _, a := range p.Answers {
		namespaces, ids, decisions = append(namespaces, []byte(a.Namespace)), append(ids, []byte(a.ID)), append(decisions, a.Bytes)
		crcs = append(crcs, int64(rows.Sum(a.Bytes, a.Namespace, a.ID)))
	}
	b.Queue(insertDecisions, namespaces, ids, crcs, decisions)
}

const (
	selectDue = "SELECT " + rows.CallColumns + ` FROM (SELECT call, expires FROM suspensions WHERE open AND expires <= $1 AND namespace = $2 ORDER BY expires, call LIMIT $3 OFFSET $4) s
		JOIN calls ON position = s.call ORDER BY s.expires, s.call`
	selectExpiring = "SELECT " + rows.CallColumns + `, s.expires FROM (SELECT call, expires FROM suspensions
		WHERE open AND expires IS NOT NULL AND (expires, call) > ($1, $2) AND namespace = $3 ORDER BY expires, call LIMIT $4) s
		JOIN calls ON position = s.call ORDER BY s.expires, s.call`
	selectDueNamespaces = "SELECT DISTINCT namespace FROM suspensions WHERE open AND expires <= $1"
	selectNextExpiry    = "SELECT min(expires) FROM suspensions WHERE open AND expires IS NOT NULL"
)
