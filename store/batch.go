package store

import (
	"context"
	"time"

	"github.com/toold-dev/toold/call"
)

// Batches is the part of the journal that knows which calls came together. What became of a batch is in the records of
// its calls, which bear its id; the row says what was asked for, and whether there is something to do still.
type Batches interface {
	// CreateBatch stores a batch and its calls, all of them or none, durably. Each change creates a call of the batch.
	// ErrExists when the batch or one of the calls is known, ErrTrimmed when only a tombstone is left of one.
	CreateBatch(ctx context.Context, b *call.Batch, calls []*Change) error
	// Batch returns a batch. ErrNotFound, ErrTrimmed, ErrCorrupt.
	Batch(ctx context.Context, key call.Key) (*call.Batch, error)
	// OpenBatches calls visit with each batch that has not ended, all namespaces. Corrupt rows are given as their key and
	// an error.
	OpenBatches(ctx context.Context, visit func(key call.Key, b *call.Batch, err error) error) error
	// EndBatch notes, durably, that there is nothing to do any more. The first end stays. From then on the batch is
	// trimmed once its calls are; until then they stay.
	EndBatch(ctx context.Context, key call.Key, at time.Time) error
}
