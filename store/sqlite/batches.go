package sqlite

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/rows"
)

const selectOpenBatches = "SELECT " + rows.BatchColumns + ` FROM batches INDEXED BY batches_open
	WHERE ended IS NULL AND (namespace, batch_id) > (?, ?) ORDER BY namespace, batch_id LIMIT ?`

// trimBatches erases the records of old batches that have ended, and whose calls were all trimmed.
func (w *writer) trimBatches(before call.Stamp) error {
	return exec(w.conn, `UPDATE batches SET trimmed = ?, record = x'', crc = 0 WHERE ended < ? AND trimmed IS NULL AND NOT EXISTS (
		SELECT 1 FROM calls INDEXED BY calls_batch WHERE calls.namespace = batches.namespace AND calls.batch_id = batches.batch_id)`,
		int64(w.s.Now()), int64(before))
}
