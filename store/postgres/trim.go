package postgres

import (
	"context"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

// Trim removes old data. While a thread has an open suspension, it keeps the finished calls of the thread, because the approver may need
// their output.
func (s *Store) Trim(ctx context.Context, callsBefore, tombstonesBefore, documentsBefore call.Stamp, limit int) (trimmed []call.Key, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.trimming.Lock()
	defer s.trimming.Unlock()
	err = s.admin(group.Op{Slow: true}, func(ctx context.Context, w *writer) (err error) {
		if trimmed, err = w.trimCalls(ctx, callsBefore, limit); err != nil {
			return err
		}
		if len(trimmed) > 0 {
			err = s.TrimOrphans(ctx, &scopes)
		}
		if err != nil {
			return err
		}
		return w.trimRest(ctx, callsBefore, tombstonesBefore)
	})
	if err != nil {
		return nil, err
	}
	if len(trimmed) == limit {
		return trimmed, nil // More old calls may be left. Only the last Trim scans whole tables.
	}
	return trimmed, s.TrimScopes(&scopes, tombstonesBefore, documentsBefore)
}

const (
	deleteRuns         = "DELETE FROM runs t WHERE (namespace, id) > ($1, $2) AND ($4::bytea IS NULL OR (namespace, id) <= ($4, $5::bytea)) AND $3 = '' AND coalesce($6, '') = '' AND (state <> 'BLOCKED' OR changed < $7) AND " + ofRun + "id)"
	deleteDocuments    = "DELETE FROM documents t WHERE (namespace, scope, scope_id) > ($1, $2, $3) AND ($4::bytea IS NULL OR (namespace, scope, scope_id) <= ($4, $5, $6::bytea)) AND scope = "
	deleteOldDocuments = deleteDocuments + "'RUN' AND changed < $7 AND " + ofRun + "scope_id AND (c.updated >= $7 OR c.status IN " + rows.Unfinished + "))"
	deleteRunDocuments = deleteDocuments + "'RUN' AND " + ofRun + "scope_id)"

	deleteThreadDocuments = deleteDocuments + "'THREAD' AND " + ofThread + "scope_id)"
)

// scopes holds the SQL texts for [group.Writer.TrimScopes].
var scopes = group.Scopes{
	Whole: [6]any{"", "", "", nil, nil, nil},
	Runs:  deleteRuns, Documents: deleteOldDocuments, RunDocuments: deleteRunDocuments, ThreadDocuments: deleteThreadDocuments,
}

const selectOld = "SELECT " + rows.CallColumns + `, e.ended FROM ended e JOIN calls ON calls.position = e.position WHERE e.ended < $1 AND NOT (thread_id IS NOT NULL AND EXISTS (SELECT 1 FROM statuses t
	WHERE t.namespace = calls.namespace AND t.thread_id = calls.thread_id AND t.status = 'SUSPENDED'))
	AND NOT (batch_id IS NOT NULL AND EXISTS (SELECT 1 FROM batches b WHERE b.namespace = calls.namespace AND b.batch_id = calls.batch_id AND b.ended IS NULL))
	ORDER BY e.ended LIMIT $2`

// trimCalls replaces old calls with tombstones.
func (w *writer) trimCalls(ctx context.Context, before call.Stamp, limit int) (trimmed []call.Key, err error) {
	var namespaces, ids, digests, statuses, positions, endeds = []string{}, []string{}, []string{}, words{}, []int64{}, []int64{}
	err = query(ctx, w.conn, selectOld, func(row rows.Row) error {
		r := rows.ReadCall(row)
		digest := ""
		if r.Err == nil {
			digest = r.Call.RequestDigest
		}
		trimmed = append(trimmed, r.Key)
		namespaces, ids, digests = append(namespaces, r.Key.Namespace), append(ids, r.Key.ID), append(digests, digest)
		statuses, positions, endeds = append(statuses, call.Status(row.Text(3))), append(positions, r.Position), append(endeds, row.Int(8))
		return nil
	}, int64(before), limit)
	if err != nil || len(trimmed) == 0 {
		return nil, err
	}
	for _, s := range []statement{
		{"DELETE FROM suspensions WHERE call = ANY ($1)", []any{positions}},
		{"DELETE FROM events WHERE call = ANY ($1)", []any{positions}},
		{deleteStatuses, []any{statuses, namespaces, positions}},
		{"DELETE FROM ended USING unnest($1::bigint[], $2::bigint[]) AS u (ended, position) WHERE ended.ended = u.ended AND ended.position = u.position", []any{endeds, positions}},
		{"DELETE FROM calls WHERE position = ANY ($1)", []any{positions}},
		{`INSERT INTO tombstones (namespace, call_id, digest, ended, trimmed) SELECT *, $5::bigint FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[])`,
			[]any{namespaces, ids, digests, endeds, int64(w.s.Now())}},
	} {
		if err := w.exec(ctx, s.text, s.args...); err != nil {
			return nil, err
		}
	}
	return trimmed, nil
}

const (
	ofRun    = "NOT EXISTS (SELECT 1 FROM calls c WHERE c.namespace = t.namespace AND c.run_id = t."
	ofThread = "NOT EXISTS (SELECT 1 FROM calls c WHERE c.namespace = t.namespace AND c.thread_id = t."
)

// Positions grow with time, so the old records come first. Of the old chained records of a namespace and kind, the newest is kept, because
// the next record is linked to it.
const deleteOldRecords = `WITH old (most) AS (
		SELECT coalesce((SELECT position FROM records WHERE created >= $1 ORDER BY position LIMIT 1), 9223372036854775807))
	DELETE FROM records r USING old WHERE r.Position < old.most AND (NOT r.chained OR EXISTS (
		SELECT 1 FROM records later WHERE later.namespace = r.namespace AND later.kind = r.kind
			AND later.Position > r.Position AND later.Position < old.most))`

func (w *writer) trimRest(ctx context.Context, callsBefore, tombstonesBefore call.Stamp) error {
	calls, tombstones := int64(callsBefore), int64(tombstonesBefore)
	for _, s := range []statement{
		{"DELETE FROM policies WHERE expires < $1", []any{calls}},
		{"DELETE FROM policies t WHERE scope = 'RUN' AND changed < $1 AND " + ofRun + "scope_id)", []any{calls}},
		{"DELETE FROM policies t WHERE scope = 'THREAD' AND changed < $1 AND " + ofThread + "scope_id)", []any{calls}},
		{"DELETE FROM actions WHERE state = 'DEAD' AND created < $1", []any{calls}},
		{`UPDATE batches b SET trimmed = $1, record = ''::bytea, crc = 0 WHERE ended < $2 AND trimmed IS NULL
			AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.namespace = b.namespace AND c.batch_id = b.batch_id)`, []any{int64(w.s.Now()), calls}},
		{"DELETE FROM batches WHERE trimmed < $1", []any{tombstones}},
		{"DELETE FROM tombstones WHERE trimmed < $1", []any{tombstones}},
		{deleteOldRecords, []any{tombstones}},
	} {
		if err := w.exec(ctx, s.text, s.args...); err != nil {
			return err
		}
	}
	return nil
}
