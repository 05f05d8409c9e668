package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/store/rows"
)

func (w *writer) insertEvents(c *group.Chunk) error {
	return exec(w.conn, "INSERT INTO events (position, call, epoch, first, last, crc, events) VALUES (?, ?, ?, ?, ?, ?, ?)",
		c.Position, c.Call, w.s.Identity().Epoch, c.First, c.Last, rows.SumEvents(c.Events, c.Call, c.First, c.Last), c.Events)
}

const selectEvents = "SELECT first, last, crc, events FROM events WHERE call = ? AND last > ? ORDER BY last LIMIT ?"

// Events returns a part of a call's log. If the first requested chunk is broken, it returns ErrCorrupt. If a later chunk is broken, it
// returns the events before that chunk. A purged call has no events.
func (s *Store) Events(ctx context.Context, key call.Key, after int64, limit int) (events []call.Event, first int64, err error) {
	if limit <= 0 {
		limit = 1 << 30
	}
	var chunks []rows.Chunk
	err = s.readAll(ctx, func(conn *sqlite.Conn) error {
		position, err := s.firstChunk(conn, key, after, &chunks)
		if err != nil {
			return err
		}
		have := 0
		for _, c := range chunks {
			have = int(c.Last - after)
		}
		if have >= limit {
			return nil
		}
		return query(conn, selectEvents, func(st *sqlite.Stmt) error {
			chunks = append(chunks, rows.Chunk{Call: position, First: st.ColumnInt64(0), Last: st.ColumnInt64(1), CRC: uint32(st.ColumnInt64(2)), Events: columnBytes(st, 3)})
			if int(st.ColumnInt64(1)-after) >= limit {
				return rows.ErrEnough
			}
			return nil
		}, position, after, limit)
	})
	if err != nil {
		return nil, 0, err
	}
	return rows.Log(ctx, s.Call, key, chunks, after, limit)
}

// firstChunk finds the call. It adds the chunk in the call's row if that chunk has events with sequences above after.
func (s *Store) firstChunk(conn *sqlite.Conn, key call.Key, after int64, chunks *[]rows.Chunk) (position int64, err error) {
	err = query(conn, "SELECT position, events_last FROM calls WHERE namespace = ? AND call_id = ?", func(st *sqlite.Stmt) error {
		position = st.ColumnInt64(0)
		if last := st.ColumnInt64(1); last > after {
			*chunks = []rows.Chunk{{Call: position, First: 1, Last: last}}
		}
		return nil
	}, key.Namespace, key.ID)
	if err == nil && position == 0 {
		return s.packedChunk(conn, key, after, chunks)
	}
	if err != nil || len(*chunks) == 0 {
		return position, err
	}
	c := &(*chunks)[0]
	return position, query(conn, "SELECT events_crc, events FROM calls WHERE position = ?", func(st *sqlite.Stmt) error {
		c.CRC, c.Events = uint32(st.ColumnInt64(0)), columnBytes(st, 1)
		return nil
	}, position)
}

// packedChunk is like firstChunk, for a call that may be in a pack.
func (s *Store) packedChunk(conn *sqlite.Conn, key call.Key, after int64, chunks *[]rows.Chunk) (position int64, err error) {
	err = query(conn, selectPacked, func(st *sqlite.Stmt) error {
		position = st.ColumnInt64(0)
		m := new(pack).find(st)
		if m.eventsLast > after || m.record == nil {
			*chunks = []rows.Chunk{m.chunk()}
		}
		return nil
	}, key.Namespace, key.ID)
	if err == nil && position == 0 {
		err = s.absent(conn, key)
	}
	return position, err
}
