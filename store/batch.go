package store

import (
	"context"

	"github.com/toold-dev/toold/call"
)

// Batches stores which calls form a batch. The row of a batch has the request, and says whether the batch is still open. The results are in
// the records of the calls. Each of these records contains the id of the batch.
type Batches interface {
	// CreateBatch stores a batch and all of its calls, or nothing, durably. Each change creates a call of the batch. The error is ErrExists
	// when the batch or a call exists, and ErrTrimmed when only a tombstone of the batch or of a call remains.
	CreateBatch(ctx context.Context, b *call.Batch, calls []*Change) error
	// Batch returns a batch. Errors: ErrNotFound, ErrTrimmed, ErrCorrupt.
	Batch(ctx context.Context, key call.Key) (*call.Batch, error)
	// OpenBatches invokes visit with each batch that has not ended, in all namespaces. For a corrupt row it passes the key and an error.
	OpenBatches(ctx context.Context, visit func(key call.Key, b *call.Batch, err error) error) error
	// EndBatch durably marks a batch as ended now. If it has already ended, its first end time stays. While a batch is open, its calls are not
	// trimmed. The batch itself is trimmed after its calls.
	EndBatch(ctx context.Context, key call.Key) error
}
