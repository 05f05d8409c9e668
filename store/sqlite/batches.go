package sqlite

import (
	"context"
	"errors"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

func (w *writer) InsertBatch(_ context.Context, b *call.Batch, record []byte) error {
	switch err := readBatch(w.conn, b.Key()); {
	case err == nil:
		return store.ErrExists
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return exec(w.conn, "INSERT INTO batches (namespace, batch_id, created, crc, record) VALUES (?, ?, ?, ?, ?)",
		b.Namespace, b.ID, nanos(b.Created), rows.Sum(record, b.Namespace, b.ID), record)
}

const selectBatch = "SELECT " + rows.BatchColumns + " FROM batches WHERE namespace = ? AND batch_id = ?"

func readBatch(conn *sqlite.Conn, key call.Key) error {
	err := error(store.ErrNotFound)
	if failed := query(conn, selectBatch, func(st *sqlite.Stmt) error {
		err = rows.ReadBatch(stmtRow{st}).Err
		return nil
	}, key.Namespace, key.ID); failed != nil {
		return failed
	}
	return err
}

const selectOpenBatches = "SELECT " + rows.BatchColumns + ` FROM batches INDEXED BY batches_open
	WHERE ended IS NULL AND (namespace, batch_id) > (?, ?) ORDER BY namespace, batch_id LIMIT ?`

// EndBatch marks a batch as ended.
func (s *Store) EndBatch(ctx context.Context, key call.Key, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.write(func(w *writer) error {
		if err := readBatch(w.conn, key); err != nil {
			return err
		}
		return exec(w.conn, "UPDATE batches SET ended = ? WHERE namespace = ? AND batch_id = ? AND ended IS NULL", nanos(at), key.Namespace, key.ID)
	})
}

// trimBatches reduces ended batches to their ids when all their calls were trimmed.
func (w *writer) trimBatches(before time.Time) error {
	return exec(w.conn, `UPDATE batches SET trimmed = ?, record = x'', crc = 0 WHERE ended < ? AND trimmed IS NULL AND NOT EXISTS (
		SELECT 1 FROM calls INDEXED BY calls_batch WHERE calls.namespace = batches.namespace AND calls.batch_id = batches.batch_id)`,
		nanos(w.s.clock.now()), nanos(before))
}
