package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store/group"
)

const (
	// selectState reads the state of calls. The expression namespace || '' prevents the use of an index on the namespace. The server
	// therefore uses the index that begins with the call id, even when it plans the statement while the table is empty.
	selectState = `SELECT k.n, coalesce(c.position, 0), coalesce(c.status, ''), coalesce(c.revision, 0), coalesce(c.last_sequence, 0), t.trimmed IS NOT NULL
		FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k (namespace, call_id, n)
		LEFT JOIN calls c ON c.namespace || '' = k.namespace AND c.call_id = k.call_id
		LEFT JOIN tombstones t ON t.namespace = k.namespace AND t.call_id = k.call_id`
	selectDecided = `SELECT k.n FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS k (namespace, id, n)
		JOIN decisions d ON d.namespace = k.namespace AND d.id = k.id`
)

// queueReads queues the reads that a plan needs.
func queueReads(b *pgx.Batch, p *group.Plan) {
	if len(p.AskCalls) > 0 {
		queueStates(b, p)
	}
	if len(p.AskDecisions) > 0 {
		queueDecisions(b, p)
	}
	if len(p.AskDocuments) > 0 {
		queueDocuments(b, p)
	}
	if len(p.AskUsage) > 0 {
		queueUsage(b, p)
	}
}

func queueStates(b *pgx.Batch, p *group.Plan) {
	keys := p.AskCalls
	namespaces, ids := make(column, len(keys)), make(column, len(keys))
	for i, k := range keys {
		namespaces[i], ids[i] = k.Namespace, k.ID
	}
	b.Queue(selectState, namespaces, ids).Query(func(rows pgx.Rows) error {
		var n int64
		var s group.State
		_, err := pgx.ForEachRow(rows, []any{&n, &s.Position, (*string)(&s.Status), &s.Revision, &s.LastSequence, &s.Trimmed}, func() error {
			*p.Calls[keys[n-1]] = s
			return nil
		})
		return err
	})
}

func queueDecisions(b *pgx.Batch, p *group.Plan) {
	namespaces, ids := make(column, len(p.AskDecisions)), make(column, len(p.AskDecisions))
	for i, d := range p.AskDecisions {
		namespaces[i], ids[i] = d.Namespace, d.ID
	}
	b.Queue(selectDecided, namespaces, ids).Query(func(rows pgx.Rows) error {
		var n int64
		_, err := pgx.ForEachRow(rows, []any{&n}, func() error {
			p.Decisions[p.AskDecisions[n-1]] = true
			return nil
		})
		return err
	})
}
