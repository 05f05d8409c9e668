package postgres

import (
	"cmp"
	"context"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

func (w *writer) InsertBatch(ctx context.Context, b *call.Batch, record []byte) error {
	known := error(nil)
	err := query(ctx, w.conn, selectBatch, func(row rows.Row) error {
		known = cmp.Or(rows.ReadBatch(row).Err, store.ErrExists)
		return nil
	}, bind([]any{b.Namespace, b.ID})...)
	if err = cmp.Or(err, known); err != nil {
		return err
	}
	const insert = "INSERT INTO batches (namespace, batch_id, created, crc, record) VALUES ($1, $2, $3, $4, $5)"
	return w.exec(ctx, insert, b.Namespace, b.ID, nanos(b.Created), int64(rows.Sum(record, b.Namespace, b.ID)), record)
}

const (
	selectBatch = "SELECT " + rows.BatchColumns + " FROM batches WHERE namespace = $1 AND batch_id = $2"
	selectOpen  = "SELECT " + rows.BatchColumns + " FROM batches WHERE ended IS NULL AND (namespace, batch_id) > ($1, $2) ORDER BY namespace, batch_id LIMIT $3"
)

// EndBatch marks a batch as ended.
func (s *Store) EndBatch(ctx context.Context, key call.Key, at time.Time) error {
	if _, err := s.Batch(ctx, key); err != nil {
		return err
	}
	return s.write(func(ctx context.Context, w *writer) error {
		return w.exec(ctx, "UPDATE batches SET ended = $1 WHERE namespace = $2 AND batch_id = $3 AND ended IS NULL", nanos(at), key.Namespace, key.ID)
	})
}
