package postgres

const upsertRun = `INSERT INTO runs (namespace, id, owner, state, reason, call_id, changed) VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT (namespace, id) DO UPDATE SET owner = excluded.owner, state = excluded.state, reason = excluded.reason, call_id = excluded.call_id, changed = excluded.changed
	WHERE excluded.state <> 'OPEN' OR runs.state <> 'BLOCKED'`

// Both statements read the index records_kind in its order.
const (
	selectRecords       = "SELECT position, key, call_id, created, crc, bytes, chained::int FROM records WHERE namespace = $1 AND kind = $2 AND position > $3 ORDER BY position LIMIT $4"
	selectRecordsBefore = "SELECT position, key, call_id, created, crc, bytes, chained::int FROM records WHERE namespace = $1 AND kind = $2 AND position < $3 ORDER BY position DESC LIMIT $4"
)
