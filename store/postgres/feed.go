package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// Feed returns the events of many calls, in the order of their positions.
func (s *Store) Feed(ctx context.Context, f store.Feed, after int64, limit int) (entries []store.FeedEntry, newest int64, err error) {
	return rows.Feed(f, after, limit, func(p *rows.FeedPart) error {
		begin := *p
		return s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			*p = begin
			return (&feedReader{p}).read(ctx, conn)
		})
	})
}

// A feedReader reads a part of a feed. It first reads the newest position of the journal. All entries up to that position are committed, so
// no new entry can appear below it.
type feedReader struct {
	*rows.FeedPart
}

func (r *feedReader) read(ctx context.Context, conn *pgx.Conn) error {
	err := scan(ctx, conn, "SELECT position FROM meta", []any{&r.Newest}, func() error { return nil })
	if err != nil || r.After >= r.Newest || r.Limit <= 0 {
		r.Complete = true
		return err
	}
	to := min(r.After+rows.Nearby, r.Newest)
	if err := r.run(ctx, conn, page, bind([]any{r.After, to, r.Namespace, r.Run, r.Thread, r.Caller, r.Limit, r.Batch})); err != nil {
		return err
	}
	if r.Cut() {
		return nil
	}
	if r.After = to; to == r.Newest {
		r.Complete = true
		return nil
	}
	if r.Run != "" || r.Thread != "" || r.Batch != "" {
		return r.seek(ctx, conn)
	}
	return nil
}

// page makes the server look up the call of each event, until the limit is reached. Without statistics, the server would prefer a join of
// both tables. Such a join would read all calls of the namespace to return one entry.
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
		r.Found = append(r.Found, c)
		return nil
	}, args...)
}

// seek finds the next events through the calls of the run, thread or batch.
func (r *feedReader) seek(ctx context.Context, conn *pgx.Conn) error {
	which, id := "run_id", r.Run
	switch {
	case r.Batch != "":
		which, id = "batch_id", r.Batch
	case id == "":
		which, id = "thread_id", r.Thread
	}
	const (
		events = `SELECT e.position, c.namespace, c.call_id, e.epoch, e.call, e.first, e.last, e.crc, e.events FROM calls c JOIN events e ON e.call = c.Position`
		calls  = `SELECT c.Position, c.namespace, c.call_id, c.Epoch, c.Position, 1::bigint, c.events_last, c.events_crc, c.Events FROM calls c`
	)
	of := " WHERE c.namespace = $3 AND c." + which + " = $9" + feedFilter
	text := "(" + events + of + " AND e.position > $1 AND e.position <= $2 ORDER BY e.position LIMIT $7) UNION ALL (" + calls + of +
		" AND c.events_last IS NOT NULL AND c.Position > $1 AND c.Position <= $2 ORDER BY c.Position LIMIT $7)"
	if err := r.run(ctx, conn, text, bind([]any{r.After, r.Newest, r.Namespace, r.Run, r.Thread, r.Caller, r.Limit, r.Batch, id})); err != nil {
		return err
	}
	if !r.Cut() {
		r.After, r.Complete = r.Newest, true
	}
	return nil
}
