package group

import (
	"cmp"
	"context"
	"errors"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// CreateBatch stores a batch and its calls in one transaction.
func (w *Writer) CreateBatch(ctx context.Context, b *call.Batch, calls []*store.Change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	record, err := call.EncodeBatch(b)
	if err != nil {
		return err
	}
	ops := make([]*Op, len(calls))
	for i, c := range calls {
		ops[i] = &Op{Change: c}
		if err := ops[i].prepare(); err != nil {
			return err
		}
	}
	return w.Do(Op{Run: func(ctx context.Context, p *Plan) error {
		if err := w.insertBatch(ctx, b, record); err != nil {
			return err
		}
		for _, o := range ops {
			p.ask(o.Change)
		}
		if err := w.cfg.Database.Read(ctx, p); err != nil {
			return err
		}
		for _, o := range ops {
			if err := p.change(o); err != nil {
				return err
			}
		}
		return nil
	}})
}

func (w *Writer) insertBatch(ctx context.Context, b *call.Batch, record []byte) error {
	switch err := w.hasBatch(ctx, b.Key()); {
	case err == nil:
		return store.ErrExists
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	return w.exec(ctx, "INSERT INTO batches (namespace, batch_id, created, crc, record) VALUES ($1, $2, $3, $4, $5)",
		b.Namespace, b.ID, int64(b.Created), int64(rows.Sum(record, b.Namespace, b.ID)), record)
}

// hasBatch returns nil for a stored batch. Errors: ErrNotFound, ErrTrimmed, ErrCorrupt.
func (w *Writer) hasBatch(ctx context.Context, key call.Key) error {
	err := store.ErrNotFound
	failed := w.cfg.Database.Query(ctx, rows.SelectBatch, func(r rows.Row) error {
		err = rows.ReadBatch(r).Err
		return nil
	}, key.Namespace, key.ID)
	return cmp.Or(failed, err)
}

// EndBatch marks a batch as ended.
func (w *Writer) EndBatch(ctx context.Context, key call.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.Do(Op{Run: func(ctx context.Context, p *Plan) error {
		if err := w.hasBatch(ctx, key); err != nil {
			return err
		}
		return w.exec(ctx, "UPDATE batches SET ended = $1 WHERE namespace = $2 AND batch_id = $3 AND ended IS NULL", int64(p.Now), key.Namespace, key.ID)
	}})
}
