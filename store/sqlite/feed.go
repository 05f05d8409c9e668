package sqlite

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// Feed returns the events of many calls, in the order of their positions.
func (s *Store) Feed(ctx context.Context, f store.Feed, after int64, limit int) (entries []store.FeedEntry, newest int64, err error) {
	return rows.Feed(f, after, limit, func(p *rows.FeedPart) error {
		return s.readAll(ctx, (&feedReader{p, time.Now()}).read)
	})
}

// A feedReader reads a part of a feed in one snapshot.
type feedReader struct {
	*rows.FeedPart
	began time.Time
}

func (r *feedReader) read(conn *sqlite.Conn) error {
	err := query(conn, "SELECT position FROM meta", func(st *sqlite.Stmt) error {
		r.Newest = st.ColumnInt64(0)
		return nil
	})
	if err != nil || r.After >= r.Newest || r.Limit <= 0 {
		r.Complete = true
		return err
	}
	narrow := r.Run != "" || r.Thread != "" || r.Batch != ""
	for {
		to := min(r.After+rows.Nearby, r.Newest)
		if err := r.scan(conn, to); err != nil {
			return err
		}
		if r.Cut() {
			return nil
		}
		if r.After = to; to == r.Newest {
			r.Complete = true
			return nil
		}
		if narrow {
			return r.seek(conn)
		}
		if time.Since(r.began) > snapshotTime {
			return nil
		}
	}
}

const (
	feedEvents = `SELECT e.position, c.namespace, c.call_id, e.epoch, e.call, e.first, e.last, e.crc, e.events
		FROM events e CROSS JOIN calls c ON c.Position = e.call WHERE `
	feedCalls = `SELECT c.Position, c.namespace, c.call_id, c.Epoch, c.Position, 1, c.events_last, c.events_crc, c.Events
		FROM calls c NOT INDEXED WHERE c.events_last IS NOT NULL AND ` // NOT INDEXED makes SQLite scan by position.
	// An empty field of a feed matches all calls.
	feedFilter = ` AND c.namespace = ?3 AND (?4 = '' OR c.run_id = ?4) AND (?5 = '' OR c.thread_id = ?5) AND (?6 = '' OR c.caller = ?6) AND (?8 = '' OR c.batch_id = ?8)`
	scanEvents = feedEvents + "e.position > ?1 AND e.position <= ?2" + feedFilter + " ORDER BY e.position LIMIT ?7"
	scanCalls  = feedCalls + "c.Position > ?1 AND c.Position <= ?2" + feedFilter + " ORDER BY c.Position LIMIT ?7"
)

// scan adds the entries of the feed at positions up to and including to.
func (r *feedReader) scan(conn *sqlite.Conn, to int64) error {
	args := []any{r.After, to, r.Namespace, r.Run, r.Thread, r.Caller, r.Limit, r.Batch}
	err := query(conn, scanEvents, r.add, args...)
	if err == nil {
		err = query(conn, scanCalls, r.add, args...)
	}
	if err == nil {
		err = r.unpack(conn, to)
	}
	return err
}

const scanPacks = selectPacks + "position > ?1 - 8 AND position <= ?2 AND last > ?1 AND namespace = ?3 ORDER BY position"

// unpack adds the entries in packs at positions up to and including to.
func (r *feedReader) unpack(conn *sqlite.Conn, to int64) error {
	if r.Batch != "" {
		return nil // Calls of batches are never packed.
	}
	found := 0
	var p pack
	return query(conn, scanPacks, func(st *sqlite.Stmt) error {
		p.read(st)
		for at := max(p.position, r.After+1); at <= min(p.last, to) && found < r.Limit; at++ {
			m, err := p.named(conn, at)
			if err != nil {
				return err
			}
			is, err := m.in(conn, r.Feed)
			if err != nil {
				return err
			}
			if is {
				r.Found = append(r.Found, m.chunk())
				found++
			}
		}
		if found == r.Limit {
			return rows.ErrEnough
		}
		return nil
	}, r.After, to, r.Namespace)
}

// in reports whether a call belongs to a feed. If the record of the call cannot be read, it looks the call up in the table members.
func (m *packed) in(conn *sqlite.Conn, f store.Feed) (bool, error) {
	switch {
	case f.Run+f.Thread+f.Caller == "":
		return true, nil
	case !m.whole():
		return m.memberOf(conn, f)
	case !m.mentions(f.Run, f.Thread, f.Caller):
		return false, nil
	}
	r := m.row()
	return r.Call != nil && (f.Run == "" || f.Run == r.Call.Run.ID) && (f.Thread == "" || f.Thread == r.Call.Run.Thread) &&
		(f.Caller == "" || f.Caller == r.Call.Caller.Subject), nil
}

const isMember = "SELECT 1 FROM members WHERE namespace = ? AND kind = ? AND name = ? AND block = ? AND bits >> ? & 1"

// memberOf reports whether a call belongs to a feed, without reading its record.
func (m *packed) memberOf(conn *sqlite.Conn, f store.Feed) (bool, error) {
	for _, of := range []member{{f.Namespace, inRun, f.Run}, {f.Namespace, inThread, f.Thread}, {f.Namespace, ofCaller, f.Caller}} {
		is := of.name == ""
		err := query(conn, isMember, func(*sqlite.Stmt) error {
			is = true
			return nil
		}, of.namespace, of.kind, of.name, m.position/blockSize, m.position%blockSize)
		if err != nil || !is {
			return false, err
		}
	}
	return true, nil
}

func (r *feedReader) add(st *sqlite.Stmt) error {
	r.Found = append(r.Found, rows.Chunk{Position: st.ColumnInt64(0), Key: call.Key{Namespace: st.ColumnText(1), ID: st.ColumnText(2)}, Epoch: st.ColumnInt64(3),
		Call: st.ColumnInt64(4), First: st.ColumnInt64(5), Last: st.ColumnInt64(6), CRC: uint32(st.ColumnInt64(7)), Events: columnBytes(st, 8)})
	return nil
}

// seekIn returns the statement that finds the positions of the next events of a run or thread. It does not read the calls.
func seekIn(kind string) string {
	which := " WHERE m.namespace = ?2 AND m.kind = '" + kind + "' AND m.name = ?3" + memberBits
	events := "SELECT e.position, 1 FROM " + membersOf + " CROSS JOIN events e INDEXED BY events_call ON e.call = " + memberAt + which + " AND e.position > ?1 ORDER BY 1 LIMIT ?4"
	calls := "SELECT " + memberAt + ", 0 FROM " + membersOf + which + " AND " + memberAt + " > ?1 ORDER BY 1 LIMIT ?4"
	return "SELECT * FROM (" + events + ") UNION ALL SELECT * FROM (" + calls + ") ORDER BY 1 LIMIT ?4"
}

// seekInBatch finds the positions of the next events of a batch, through the calls of the batch, which are few.
const seekInBatch = `SELECT * FROM (SELECT e.position, 1 FROM calls c INDEXED BY calls_batch CROSS JOIN events e INDEXED BY events_call ON e.call = c.Position
	WHERE c.namespace = ?2 AND c.batch_id = ?3 AND e.position > ?1 ORDER BY 1 LIMIT ?4)
	UNION ALL SELECT * FROM (SELECT c.Position, 0 FROM calls c INDEXED BY calls_batch
	WHERE c.namespace = ?2 AND c.batch_id = ?3 AND c.Position > ?1 ORDER BY 1 LIMIT ?4) ORDER BY 1 LIMIT ?4`

// seek finds the next events through the calls of the run, thread or batch.
func (r *feedReader) seek(conn *sqlite.Conn) error {
	text, id := seekIn(inRun), r.Run
	switch {
	case r.Batch != "":
		text, id = seekInBatch, r.Batch
	case id == "":
		text, id = seekIn(inThread), r.Thread
	}
	type entry struct {
		position int64
		chunk    bool
	}
	var entries []entry
	err := query(conn, text, func(st *sqlite.Stmt) error {
		entries = append(entries, entry{st.ColumnInt64(0), st.ColumnBool(1)})
		return nil
	}, r.After, r.Namespace, id, rows.Nearby)
	if err != nil {
		return err
	}
	for _, p := range entries {
		text := feedCalls + "c.Position = ?1 AND ?2 = ?2" + feedFilter
		if p.chunk {
			text = feedEvents + "e.position = ?1 AND ?2 = ?2" + feedFilter
		}
		n := len(r.Found)
		if err := query(conn, text, r.add, p.position, p.position, r.Namespace, r.Run, r.Thread, r.Caller, 0, r.Batch); err != nil {
			return err
		}
		r.After = p.position - 1
		if !p.chunk && len(r.Found) == n {
			if err := r.unpack(conn, p.position); err != nil {
				return err
			}
		}
		r.After = p.position
		if len(r.Found) >= r.Limit {
			return nil
		}
	}
	if len(entries) < rows.Nearby {
		r.After, r.Complete = r.Newest, true
	}
	return nil
}
