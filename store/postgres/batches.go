package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// InsertBatch implements [group.Database].
func (w *writer) InsertBatch(ctx context.Context, b *call.Batch, record []byte) error {
	var known batchScanner
	switch _, err := known.one(func(row func() error) error {
		return scan(ctx, w.conn, selectBatch, known.dest(), row, bind([]any{b.Namespace, b.ID})...)
	}); {
	case err == nil:
		return store.ErrExists
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	const insert = "INSERT INTO batches (namespace, batch_id, created, crc, record) VALUES ($1, $2, $3, $4, $5)"
	return w.exec(ctx, insert, b.Namespace, b.ID, nanos(b.Created), int64(sum(record, b.Namespace, b.ID)), record)
}

const (
	batchColumns = "namespace, batch_id, ended, trimmed, crc, record"
	selectBatch  = "SELECT " + batchColumns + " FROM batches WHERE namespace = $1 AND batch_id = $2"
	selectOpen   = "SELECT " + batchColumns + " FROM batches WHERE ended IS NULL AND (namespace, batch_id) > ($1, $2) ORDER BY namespace, batch_id LIMIT $3"
)

// A batchScanner reads batches from rows.
type batchScanner struct {
	namespace, id, record []byte
	ended, trimmed        *int64
	crc                   int64
}

func (s *batchScanner) dest() []any {
	return []any{&s.namespace, &s.id, &s.ended, &s.trimmed, &s.crc, &s.record}
}

// A batchRow is a batch as it was stored, or why it cannot be read.
type batchRow struct {
	key   call.Key
	batch *call.Batch
	err   error
}

func (s *batchScanner) row() (r batchRow) {
	r.key = call.Key{Namespace: string(s.namespace), ID: string(s.id)}
	switch {
	case s.trimmed != nil:
		r.err = store.ErrTrimmed
		return r
	case int64(sum(s.record, r.key.Namespace, r.key.ID)) != s.crc:
		r.err = errors.New("checksum")
	default:
		r.batch, r.err = call.DecodeBatch(s.record)
	}
	if r.err != nil {
		r.err = fmt.Errorf("%w: batch %s: %w", store.ErrCorrupt, r.key.ID, r.err)
		return r
	}
	r.batch.Ended = timeOf(s.ended)
	return r
}

// one returns the batch that a query finds, if it finds one.
func (s *batchScanner) one(query func(row func() error) error) (*call.Batch, error) {
	found := batchRow{err: store.ErrNotFound}
	if err := query(func() error { found = s.row(); return nil }); err != nil {
		return nil, err
	}
	return found.batch, found.err
}

// Batch returns a batch.
func (s *Store) Batch(ctx context.Context, key call.Key) (*call.Batch, error) {
	var scanner batchScanner
	return scanner.one(func(row func() error) error {
		return s.each(ctx, selectBatch, scanner.dest(), func() {}, row, key.Namespace, key.ID)
	})
}

// OpenBatches visits what has not ended.
func (s *Store) OpenBatches(ctx context.Context, visit func(call.Key, *call.Batch, error) error) error {
	const page = 128
	var last call.Key
	for {
		var rows []batchRow
		var scanner batchScanner
		err := s.each(ctx, selectOpen, scanner.dest(), func() { rows = nil }, func() error {
			rows = append(rows, scanner.row())
			return nil
		}, last.Namespace, last.ID, page)
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
	if _, err := s.Batch(ctx, key); err != nil {
		return err
	}
	return s.write(func(ctx context.Context, w *writer) error {
		return w.exec(ctx, "UPDATE batches SET ended = $1 WHERE namespace = $2 AND batch_id = $3 AND ended IS NULL", nanos(at), key.Namespace, key.ID)
	})
}
