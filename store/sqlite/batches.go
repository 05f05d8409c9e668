package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// InsertBatch implements [group.Database].
func (w *writer) InsertBatch(_ context.Context, b *call.Batch, record []byte) error {
	switch _, err := readBatch(w.conn, b.Key()); {
	case err == nil:
		return store.ErrExists
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return exec(w.conn, "INSERT INTO batches (namespace, batch_id, created, crc, record) VALUES (?, ?, ?, ?, ?)",
		b.Namespace, b.ID, nanos(b.Created), sum(record, b.Namespace, b.ID), record)
}

const batchColumns = "namespace, batch_id, ended, trimmed, crc, record"

// A batchRow is a batch as it was stored, or why it cannot be read.
type batchRow struct {
	key   call.Key
	batch *call.Batch
	err   error
}

func scanBatch(st *sqlite.Stmt) (r batchRow) {
	r.key = call.Key{Namespace: st.ColumnText(0), ID: st.ColumnText(1)}
	record := columnBytes(st, 5)
	switch {
	case !st.ColumnIsNull(3):
		r.err = store.ErrTrimmed
		return r
	case sum(record, r.key.Namespace, r.key.ID) != uint32(st.ColumnInt64(4)):
		r.err = errors.New("checksum")
	default:
		r.batch, r.err = call.DecodeBatch(record)
	}
	if r.err != nil {
		r.err = fmt.Errorf("%w: batch %s: %w", store.ErrCorrupt, r.key.ID, r.err)
		return r
	}
	r.batch.Ended = columnTime(st, 2)
	return r
}

func readBatch(conn *sqlite.Conn, key call.Key) (*call.Batch, error) {
	r := batchRow{err: store.ErrNotFound}
	err := query(conn, "SELECT "+batchColumns+" FROM batches WHERE namespace = ? AND batch_id = ?", func(st *sqlite.Stmt) error {
		r = scanBatch(st)
		return nil
	}, key.Namespace, key.ID)
	if err == nil {
		err = r.err
	}
	return r.batch, err
}

// Batch returns a batch.
func (s *Store) Batch(ctx context.Context, key call.Key) (b *call.Batch, err error) {
	err = s.read(ctx, func(conn *sqlite.Conn) (err error) {
		b, err = readBatch(conn, key)
		return err
	})
	return b, err
}

const selectOpenBatches = "SELECT " + batchColumns + ` FROM batches INDEXED BY batches_open
	WHERE ended IS NULL AND (namespace, batch_id) > (?, ?) ORDER BY namespace, batch_id LIMIT ?`

// OpenBatches visits what has not ended. No snapshot is held while visit runs.
func (s *Store) OpenBatches(ctx context.Context, visit func(call.Key, *call.Batch, error) error) error {
	const page = 128
	var last call.Key
	for {
		var rows []batchRow
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, selectOpenBatches, func(st *sqlite.Stmt) error {
				rows = append(rows, scanBatch(st))
				return nil
			}, last.Namespace, last.ID, page)
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := visit(r.key, r.batch, r.err); err != nil {
				return err
			}
			last = r.key
		}
		if len(rows) < page {
			return nil
		}
	}
}

// EndBatch notes that there is nothing to do any more.
func (s *Store) EndBatch(ctx context.Context, key call.Key, at time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.write(func(w *writer) error {
		if _, err := readBatch(w.conn, key); err != nil {
			return err
		}
		return exec(w.conn, "UPDATE batches SET ended = ? WHERE namespace = ? AND batch_id = ? AND ended IS NULL", nanos(at), key.Namespace, key.ID)
	})
}

// trimBatches leaves of batches whose calls are gone their ids alone.
func (w *writer) trimBatches(before time.Time) error {
	return exec(w.conn, `UPDATE batches SET trimmed = ?, record = x'', crc = 0 WHERE ended < ? AND trimmed IS NULL AND NOT EXISTS (
		SELECT 1 FROM calls INDEXED BY calls_batch WHERE calls.namespace = batches.namespace AND calls.batch_id = batches.batch_id)`,
		nanos(w.s.clock.now()), nanos(before))
}
