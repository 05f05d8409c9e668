package memory

import (
	"context"
	"maps"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// A batch is a stored batch in its encoded form. A trimmed batch has no record.
type batch struct {
	key            call.Key
	record         []byte
	ended, trimmed call.Stamp
}

func (b batch) decode() (*call.Batch, error) {
	if b.trimmed != 0 {
		return nil, store.ErrTrimmed
	}
	d, err := call.DecodeBatch(b.record)
	if err == nil {
		d.Ended = b.ended
	}
	return d, err
}

func (st *state) batch(key call.Key) (*call.Batch, error) {
	b, ok := st.batches[key]
	if !ok {
		return nil, store.ErrNotFound
	}
	return b.decode()
}

// CreateBatch stores a batch and its calls, or nothing.
func (s *Store) CreateBatch(ctx context.Context, b *call.Batch, calls []*store.Change) error {
	record, err := call.EncodeBatch(b)
	if err == nil {
		err = ctx.Err()
	}
	for _, c := range calls {
		if err == nil {
			err = c.Validate()
		}
		if err == nil && s.cfg.Fail != nil {
			err = s.cfg.Fail(c)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return s.ended
	}
	if err != nil {
		return err
	}
	switch _, known := s.current.batches[b.Key()]; {
	case known && s.current.batches[b.Key()].trimmed == 0:
		return store.ErrExists
	case known:
		return store.ErrTrimmed
	}
	now := s.Now()
	for _, c := range calls {
		if _, err := s.current.plan(c, now); err != nil { // Check all changes before anything is written.
			return err
		}
	}
	s.commitLocked(&effect{batch: &batch{key: b.Key(), record: record}}, store.Full)
	for _, c := range calls {
		e, err := s.current.plan(c, now)
		if err != nil {
			return err
		}
		s.commitLocked(e, store.Full)
	}
	return nil
}

// Batch returns a batch.
func (s *Store) Batch(ctx context.Context, key call.Key) (b *call.Batch, err error) {
	err = s.read(ctx, func(st *state) error {
		b, err = st.batch(key)
		return err
	})
	return b, err
}

// OpenBatches visits the batches that have not ended.
func (s *Store) OpenBatches(ctx context.Context, visit func(call.Key, *call.Batch, error) error) error {
	var open []batch
	err := s.read(ctx, func(st *state) error {
		for _, b := range st.batches {
			if b.ended == 0 {
				open = append(open, b)
			}
		}
		return nil
	})
	for _, b := range open {
		if err != nil {
			return err
		}
		d, decodeErr := b.decode()
		err = visit(b.key, d, decodeErr)
	}
	return err
}

// EndBatch marks a batch as ended.
func (s *Store) EndBatch(ctx context.Context, key call.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	missing := error(nil)
	err := s.write(func(st *state, now call.Stamp) *effect {
		b, ok := st.batches[key]
		switch {
		case !ok:
			missing = store.ErrNotFound
		case b.trimmed != 0:
			missing = store.ErrTrimmed
		case b.ended == 0:
			b.ended = now
			return &effect{batch: &b}
		}
		return &effect{}
	})
	if err == nil {
		err = missing
	}
	return err
}

func (st *state) inOpenBatch(r *row) bool {
	b, ok := st.batches[call.Key{Namespace: r.key.Namespace, ID: r.batch}]
	return ok && r.batch != "" && b.ended == 0
}

// trimBatches adds to the effect the batches that ended before the time before, and whose calls were all trimmed.
func (st *state) trimBatches(e *effect, before, now call.Stamp) {
	left := map[call.Key]bool{}
	for _, r := range st.calls {
		if _, goes := e.trimmed[r.key]; !goes && r.batch != "" {
			left[call.Key{Namespace: r.key.Namespace, ID: r.batch}] = true
		}
	}
	e.emptied = map[call.Key]batch{}
	for key, b := range st.batches {
		if b.trimmed == 0 && b.ended != 0 && b.ended < before && !left[key] {
			e.emptied[key] = batch{key: key, ended: b.ended, trimmed: now}
		}
	}
}

// sweepBatches replaces the batches of the effect with tombstones, and removes old tombstones.
func (st *state) sweepBatches(e *effect) {
	if e.emptied == nil {
		return
	}
	maps.Copy(st.batches, e.emptied)
	maps.DeleteFunc(st.batches, func(_ call.Key, b batch) bool { return b.trimmed != 0 && b.trimmed < e.before })
}
