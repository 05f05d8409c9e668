package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

func sumCall(c *call.Call, record []byte) uint32 {
	return sumStored(c.Key(), string(c.Status), c.Revision, record)
}

func sumStored(key call.Key, status string, revision int64, record []byte) uint32 {
	var room [256]byte
	words := appendKey(appendKey(appendKey(room[:0], key.Namespace), key.ID), status)
	return sumParts(appendNumberKey(words, revision), record)
}

// callColumnList is what a callScanner reads, of a table that is named calls.
const callColumnList = "calls.position, calls.namespace, call_id, calls.status, revision, last_sequence, crc, record"

// A callRow is a call as it was stored, or why it cannot be read.
type callRow struct {
	position int64
	key      call.Key
	call     *call.Call // nil with err
	err      error
}

// A callScanner reads calls from rows.
type callScanner struct {
	position, revision, last, crc int64
	namespace, id, record         []byte
	status                        string
}

func (s *callScanner) dest() []any {
	return []any{&s.position, &s.namespace, &s.id, &s.status, &s.revision, &s.last, &s.crc, &s.record}
}

func (s *callScanner) row() callRow {
	r := callRow{position: s.position, key: call.Key{Namespace: string(s.namespace), ID: string(s.id)}}
	var err error
	if int64(sumStored(r.key, s.status, s.revision, s.record)) != s.crc {
		err = errors.New("checksum")
	} else {
		r.call, err = call.DecodeCall(s.record)
	}
	if err != nil {
		r.call, r.err = nil, fmt.Errorf("%w: call %s: %w", store.ErrCorrupt, r.key.ID, err)
		return r
	}
	r.call.LastSequence = max(r.call.LastSequence, s.last)
	return r
}

// callRows returns the calls that a statement selects.
func (s *Store) callRows(ctx context.Context, text string, args ...any) (rows []callRow, err error) {
	var scanner callScanner
	err = s.each(ctx, text, scanner.dest(), func() { rows = nil }, func() error {
		rows = append(rows, scanner.row())
		return nil
	}, args...)
	return rows, err
}

const (
	selectCall = "SELECT " + callColumnList + " FROM calls WHERE namespace = $1 AND call_id = $2"
	isTrimmed  = "SELECT EXISTS (SELECT 1 FROM tombstones WHERE namespace = $1 AND call_id = $2)"
)

// Call returns a call.
func (s *Store) Call(ctx context.Context, key call.Key) (*call.Call, error) {
	rows, err := s.callRows(ctx, selectCall, key.Namespace, key.ID)
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0:
		return nil, s.absent(ctx, key)
	}
	return rows[0].call, rows[0].err
}

// absent says why a call is not there.
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
	// selectBegun says which calls are to be looked at. The index has them by namespace, so all are read and sorted, once.
	selectBegun      = "SELECT position FROM statuses WHERE status IN ('NEW', 'RUNNING', 'RESUMING') ORDER BY position"
	selectUnfinished = "SELECT " + callColumnList + " FROM calls WHERE position = ANY ($1) ORDER BY position"
)

// Unfinished visits what recovery has to look at. Nothing is held while visit runs, so it may write.
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
		rows, err := s.callRows(ctx, selectUnfinished, some)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.err == nil && (r.call.Status.Terminal() || r.call.Status == call.Suspended) {
				continue // since the index was read
			}
			if err := visit(r.key, r.call, r.err); err != nil {
				return err
			}
		}
	}
	return nil
}

// A chunk is the events that one change brought.
type chunk struct {
	position int64
	key      call.Key
	epoch    int64
	call     int64
	first    int64
	last     int64
	crc      int64
	events   []byte
}

// decode returns at most limit events of the chunk, which are above after.
func (c *chunk) decode(after int64, limit int) ([]call.Event, error) {
	if int64(sumEvents(c.events, c.call, c.first, c.last)) != c.crc {
		return nil, fmt.Errorf("%w: events %d to %d", store.ErrCorrupt, c.first, c.last)
	}
	events, err := call.DecodeEventsAfter(c.events, after, limit)
	if want := min(c.last-max(after, c.first-1), int64(limit)); err != nil || int64(len(events)) != want {
		return nil, fmt.Errorf("%w: events %d to %d: %w", store.ErrCorrupt, c.first, c.last, err)
	}
	return events, nil
}

const (
	selectFirstChunk = `SELECT position, coalesce(events_last, 0), coalesce(events_crc, 0), CASE WHEN events_last > $3 THEN events END
		FROM calls WHERE namespace = $1 AND call_id = $2`
	selectEvents = "SELECT first, last, crc, events FROM events WHERE call = $1 AND last > $2 ORDER BY last LIMIT $3"
)

// Events returns a part of a call's log. A broken chunk is refused when it is the first that was asked for, so that what
// stands before it can be read. Of a call that was purged there is no chunk.
func (s *Store) Events(ctx context.Context, key call.Key, after int64, limit int) (events []call.Event, first int64, err error) {
	if limit <= 0 {
		limit = 1 << 30
	}
	var chunks []chunk
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
	case len(chunks) == 0:
		first, err = s.firstKept(ctx, key)
		return nil, first, err
	}
	for _, c := range chunks {
		some, err := c.decode(after, limit-len(events))
		if err != nil && len(events) > 0 {
			break
		}
		if err != nil {
			return nil, 1, fmt.Errorf("call %s: %w", key.ID, err)
		}
		if events = append(events, some...); len(events) >= limit {
			break
		}
	}
	return events, 1, nil
}

// readLog returns the chunks of a call with events above after. The first stands in the row of the call.
func readLog(ctx context.Context, conn *pgx.Conn, args []any, after int64, limit int) (chunks []chunk, found bool, err error) {
	var c chunk
	err = scan(ctx, conn, selectFirstChunk, []any{&c.call, &c.last, &c.crc, &c.events}, func() error {
		found = true
		if c.first = 1; c.last > after {
			chunks = append(chunks, c)
		}
		return nil
	}, args...)
	if err != nil || !found || len(chunks) > 0 && int(c.last-after) >= limit {
		return chunks, found, err
	}
	position := c.call
	err = scan(ctx, conn, selectEvents, []any{&c.first, &c.last, &c.crc, &c.events}, func() error {
		c.call = position
		chunks = append(chunks, c)
		if int(c.last-after) >= limit {
			return errEnough
		}
		return nil
	}, position, after, limit)
	return chunks, found, err
}

// firstKept returns the number with which the log of a call begins when nothing of it was found.
func (s *Store) firstKept(ctx context.Context, key call.Key) (int64, error) {
	c, err := s.Call(ctx, key)
	if err != nil {
		return 0, err
	}
	if c.Purge != nil {
		return c.LastSequence + 1, nil
	}
	return 1, nil
}
