package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// nearby is the number of positions in which a feed looks for the next change before it uses an index. For a reader near the end of the
// journal, this scan is fast. A reader of a quiet run that is far behind finds the next change faster through the calls of the run.
const nearby = 512

// Feed returns the events of many calls, in the order of their positions.
func (s *Store) Feed(ctx context.Context, f store.Feed, after int64, limit int) (entries []store.FeedEntry, newest int64, err error) {
	for {
		r := feedReader{f: f, limit: limit - len(entries)}
		from := after
		err := s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			r.after, r.found, r.complete = from, nil, false
			return r.read(ctx, conn)
		})
		if err != nil {
			return nil, 0, err
		}
		slices.SortFunc(r.found, func(a, b rows.Chunk) int { return cmp.Compare(a.Position, b.Position) })
		for _, c := range r.found {
			entries = append(entries, c.Entry())
		}
		after = r.after
		if newest = r.newest; r.complete || len(entries) >= limit {
			return entries, newest, nil
		}
	}
}

// A feedReader reads a part of a feed. It first reads the newest position of the journal. All entries up to that position are committed, so
// no entry can appear there later.
type feedReader struct {
	f        store.Feed
	after    int64
	limit    int
	found    []rows.Chunk
	newest   int64
	complete bool // The reader has reached the end of the feed.
}

func (r *feedReader) read(ctx context.Context, conn *pgx.Conn) error {
	err := scan(ctx, conn, "SELECT position FROM meta", []any{&r.newest}, func() error { return nil })
	if err != nil || r.after >= r.newest || r.limit <= 0 {
		r.complete = true
		return err
	}
	to := min(r.after+nearby, r.newest)
	if err := r.run(ctx, conn, page, bind([]any{r.after, to, r.f.Namespace, r.f.Run, r.f.Thread, r.f.Caller, r.limit, r.f.Batch})); err != nil {
		return err
	}
	if r.cut() {
		return nil
	}
	if r.after = to; to == r.newest {
		r.complete = true
		return nil
	}
	if r.f.Run != "" || r.f.Thread != "" || r.f.Batch != "" {
		return r.seek(ctx, conn)
	}
	return nil
}

// cut drops the entries beyond the limit, and reports whether the limit is reached.
func (r *feedReader) cut() bool {
	if len(r.found) < r.limit {
		return false
	}
	slices.SortFunc(r.found, func(a, b rows.Chunk) int { return cmp.Compare(a.Position, b.Position) })
	r.found = r.found[:r.limit]
	r.after = r.found[r.limit-1].Position
	return true
}

// page makes the server look up the call of each event, until the limit is reached. The server would prefer a join of both tables while it
// has no statistics. That would read all calls of the namespace for one entry.
const page = "(" + `SELECT e.position, c.namespace, c.call_id, e.epoch, e.call, e.first, e.last, e.crc, e.events
	FROM events e CROSS JOIN LATERAL (SELECT namespace, call_id, run_id, thread_id, caller, batch_id FROM calls WHERE position = e.call OFFSET 0) c
	WHERE e.position BETWEEN $1 + 1 AND $2` + feedFilter + " ORDER BY e.position LIMIT $7) UNION ALL (" +
	`SELECT c.Position, c.namespace, c.call_id, c.Epoch, c.Position, 1::bigint, c.events_last, c.events_crc, c.Events
	FROM calls c WHERE c.events_last IS NOT NULL AND c.Position BETWEEN $1 + 1 AND $2` + feedFilter + " ORDER BY c.Position LIMIT $7)"

const feedFilter = " AND c.namespace = $3 AND ($4 = ''::bytea OR c.run_id = $4) AND ($5 = ''::bytea OR c.thread_id = $5) AND ($6 = ''::bytea OR c.caller = $6) AND ($8 = ''::bytea OR c.batch_id = $8)"

func (r *feedReader) run(ctx context.Context, conn *pgx.Conn, text string, args []any) error {
	var c rows.Chunk
	var namespace, id []byte
	return scan(ctx, conn, text, []any{&c.Position, &namespace, &id, &c.Epoch, &c.Call, &c.First, &c.Last, &c.CRC, &c.Events}, func() error {
		c.Key.Namespace, c.Key.ID = string(namespace), string(id)
		r.found = append(r.found, c)
		return nil
	}, args...)
}

// seek finds the next events through the calls of the run, thread or batch.
func (r *feedReader) seek(ctx context.Context, conn *pgx.Conn) error {
	which, id := "run_id", r.f.Run
	switch {
	case r.f.Batch != "":
		which, id = "batch_id", r.f.Batch
	case id == "":
		which, id = "thread_id", r.f.Thread
	}
	const (
		events = `SELECT e.position, c.namespace, c.call_id, e.epoch, e.call, e.first, e.last, e.crc, e.events FROM calls c JOIN events e ON e.call = c.Position`
		calls  = `SELECT c.Position, c.namespace, c.call_id, c.Epoch, c.Position, 1::bigint, c.events_last, c.events_crc, c.Events FROM calls c`
	)
	of := " WHERE c.namespace = $3 AND c." + which + " = $9" + feedFilter
	text := "(" + events + of + " AND e.position > $1 AND e.position <= $2 ORDER BY e.position LIMIT $7) UNION ALL (" + calls + of +
		" AND c.events_last IS NOT NULL AND c.Position > $1 AND c.Position <= $2 ORDER BY c.Position LIMIT $7)"
	if err := r.run(ctx, conn, text, bind([]any{r.after, r.newest, r.f.Namespace, r.f.Run, r.f.Thread, r.f.Caller, r.limit, r.f.Batch, id})); err != nil {
		return err
	}
	if !r.cut() {
		r.after, r.complete = r.newest, true
	}
	return nil
}
