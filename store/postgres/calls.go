package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

func sumCall(c *call.Call, record []byte) int64 {
	return int64(rows.SumCall(c.Key(), c.Status, c.Revision, record))
}

const (
	selectCall = "SELECT " + rows.CallColumns + " FROM calls WHERE namespace = $1 AND call_id = $2"
	isTrimmed  = "SELECT EXISTS (SELECT 1 FROM tombstones WHERE namespace = $1 AND call_id = $2)"
)

// Call returns a call. The error is ErrNotFound for an unknown id, and ErrTrimmed when only a tombstone remains.
func (s *Store) Call(ctx context.Context, key call.Key) (*call.Call, error) {
	found, err := s.FindCalls(ctx, selectCall, key.Namespace, key.ID)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, s.absent(ctx, key)
	}
	return found[0].Call, found[0].Err
}

// absent returns the error for a missing call: ErrTrimmed or ErrNotFound.
func (s *Store) absent(ctx context.Context, key call.Key) error {
	trimmed := false
	if err := s.row(ctx, isTrimmed, []any{&trimmed}, key.Namespace, key.ID); err != nil {
		return err
	}
	if trimmed {
		return store.ErrTrimmed
	}
	return store.ErrNotFound
}

const (
	// selectBegun selects the calls that recovery must check. The index orders calls by status and namespace but not by position. The
	// statement therefore reads all these calls at once, not page by page, and sorts them.
	selectBegun      = "SELECT position FROM statuses WHERE status IN " + rows.Begun + " ORDER BY position"
	selectUnfinished = "SELECT " + rows.CallColumns + " FROM calls WHERE position = ANY ($1) ORDER BY position"
)

// Unfinished visits the calls that recovery must check. It holds no transaction while visit runs, so visit may write.
func (s *Store) Unfinished(ctx context.Context, visit func(call.Key, *call.Call, error) error) error {
	const page = 128
	var open []int64
	var position int64
	err := s.each(ctx, selectBegun, []any{&position}, func() { open = nil }, func() error {
		open = append(open, position)
		return nil
	})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(open, page) {
		found, err := s.FindCalls(ctx, selectUnfinished, some)
		if err != nil {
			return err
		}
		for _, c := range found {
			if c.Err == nil && (c.Call.Status.Terminal() || c.Call.Status == call.Suspended) {
				continue // The status has changed since selectBegun was executed.
			}
			if err := visit(c.Key, c.Call, c.Err); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	selectFirstChunk = `SELECT position, coalesce(events_last, 0), coalesce(events_crc, 0), CASE WHEN events_last > $3 THEN events END
		FROM calls WHERE namespace = $1 AND call_id = $2`
	selectEvents = "SELECT first, last, crc, events FROM events WHERE call = $1 AND last > $2 ORDER BY last LIMIT $3"
)

// Events returns a part of a call's log. If the first requested chunk is broken, it returns ErrCorrupt. If a later chunk is broken, it
// returns the events before that chunk. A purged call has no events.
func (s *Store) Events(ctx context.Context, key call.Key, after int64, limit int) (events []call.Event, first int64, err error) {
	if limit <= 0 {
		limit = 1 << 30
	}
	var chunks []rows.Chunk
	found := false
	args := bind([]any{key.Namespace, key.ID, after})
	err = s.read(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
		chunks, found, err = readLog(ctx, conn, args, after, limit)
		return err
	})
	switch {
	case err != nil:
		return nil, 0, err
	case !found:
		return nil, 0, s.absent(ctx, key)
	}
	return rows.Log(ctx, s.Call, key, chunks, after, limit)
}

// readLog returns the chunks of a call with events above after. The row of the call has the first chunk.
func readLog(ctx context.Context, conn *pgx.Conn, args []any, after int64, limit int) (chunks []rows.Chunk, found bool, err error) {
	var c rows.Chunk
	err = scan(ctx, conn, selectFirstChunk, []any{&c.Call, &c.Last, &c.CRC, &c.Events}, func() error {
		found = true
		if c.First = 1; c.Last > after {
			chunks = append(chunks, c)
		}
		return nil
	}, args...)
	if err != nil || !found || len(chunks) > 0 && int(c.Last-after) >= limit {
		return chunks, found, err
	}
	position := c.Call
	err = scan(ctx, conn, selectEvents, []any{&c.First, &c.Last, &c.CRC, &c.Events}, func() error {
		c.Call = position
		chunks = append(chunks, c)
		if int(c.Last-after) >= limit {
			return rows.ErrEnough
		}
		return nil
	}, position, after, limit)
	return chunks, found, err
}
