package rows

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"time"
)

// ErrHasStore means that the destination of a copy already has a store.
var ErrHasStore = errors.New("has a store already")

// Tables gives access to the rows of a journal, for a copy into another store. Values are integers, strings, bytes, booleans and nil.
type Tables interface {
	Table(ctx context.Context, name string, columns []string) iter.Seq2[[]any, error]
}

// An Imported reports how many rows of a table were copied.
type Imported struct {
	Table string
	Rows  int64
}

// Identity returns the id, epoch, clock and position for a copy of a journal. The epochs of the copy start at the current Unix time in
// seconds. The original cannot reach these epochs, because daemons start less than once a second on average.
func Identity(ctx context.Context, from Tables) ([]any, error) {
	for values, err := range from.Table(ctx, "meta", []string{"store_id", "epoch", "clock", "position"}) {
		if err != nil {
			return nil, err
		}
		epoch, ok := values[1].(int64)
		if !ok {
			return nil, fmt.Errorf("epoch %v", values[1])
		}
		values[1] = max(epoch, time.Now().Unix())
		return values, nil
	}
	return nil, errors.New("the other store has never been used")
}

// A Fingerprint is a hash of rows that does not depend on their order.
type Fingerprint struct {
	seed maphash.Seed
	rows int64
	sum  uint64
}

// NewFingerprints returns two empty fingerprints. They become equal when the same rows are added to both.
func NewFingerprints() (written, read Fingerprint) {
	written.seed = maphash.MakeSeed()
	return written, written
}

// Add adds a row.
func (f *Fingerprint) Add(values []any) {
	var h maphash.Hash
	h.SetSeed(f.seed)
	word := func(kind byte, b []byte) {
		h.WriteByte(kind)
		h.Write(AppendLength(nil, len(b)))
		h.Write(b)
	}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			h.WriteByte('n')
		case string:
			word('s', []byte(v))
		case []byte:
			word('b', v)
		case int64:
			word('i', binary.BigEndian.AppendUint64(nil, uint64(v)))
		default:
			word('v', fmt.Append(nil, v))
		}
	}
	f.rows++
	f.sum += h.Sum64()
}

// Compare compares f, the fingerprint of the written rows, with the fingerprint of the rows that were read back. It returns the number of
// rows, or an error when the fingerprints differ.
func (f Fingerprint) Compare(read Fingerprint) (int64, error) {
	if f != read {
		return 0, fmt.Errorf("the copy differs from what was written: read back %d of %d rows", read.rows, f.rows)
	}
	return f.rows, nil
}
