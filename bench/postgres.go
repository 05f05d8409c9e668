package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/postgres/pgtest"
	"github.com/toold-dev/toold/tool"
)

// postgresWriters is how many write at once.
const postgresWriters = 64

// postgresJournal compares the journal in PostgreSQL, which commits what many bring as one transaction, with the same rows
// written by a transaction for each change, each writer on a connection of its own.
func postgresJournal(ctx context.Context, s *settings) (out result, err error) {
	server, err := pgtest.Start("shared_buffers=128MB", fmt.Sprint("max_connections=", postgresWriters+20))
	if err != nil {
		return out, err
	}
	defer server.Close()
	j, err := postgres.Open(ctx, postgres.Config{URL: server.URL("grouped"), Dir: filepath.Join(s.dir, "postgres")})
	if err != nil {
		return out, err
	}
	defer j.Close()
	direct, end, err := openDirect(ctx, server, filepath.Join(s.dir, "direct"))
	if err != nil {
		return out, err
	}
	defer end()
	var a, b float64
	for range s.rounds {
		if a, err = straight(ctx, postgresWriters, s.duration, func(n int64) error { return intentAndResult(ctx, j, n) }); err != nil {
			return out, err
		}
		if b, err = straight(ctx, postgresWriters, s.duration, func(n int64) error { return direct.intentAndResult(ctx, n) }); err != nil {
			return out, err
		}
		out.ratios = append(out.ratios, a/b)
	}
	out.detail = fmt.Sprintf("%.0f and %.0f transitions a second", 2*a, 2*b)
	return out, nil
}

// A directJournal writes the rows of the journal, with its indexes, a transaction for each change.
type directJournal struct{ pool *pgxpool.Pool }

// openDirect makes the tables and leaves them to who writes directly.
func openDirect(ctx context.Context, server *pgtest.Server, dir string) (*directJournal, func(), error) {
	url := server.URL("direct")
	j, err := postgres.Open(ctx, postgres.Config{URL: url, Dir: dir})
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		return nil, nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	config.MaxConns, config.MinConns = postgresWriters, postgresWriters
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	return &directJournal{pool}, pool.Close, nil
}

func (d *directJournal) intentAndResult(ctx context.Context, n int64) error {
	c := newRecord(n)
	c.LastSequence = 2
	record, events, err := forms(c, call.EventAccepted, call.EventAttemptStarted)
	if err != nil {
		return err
	}
	position, now := n, time.Now().UnixNano()
	err = d.transaction(ctx, func(b *pgx.Batch) {
		b.Queue("SELECT 1 FROM calls WHERE namespace = $1 AND call_id = $2", []byte(c.Namespace), []byte(c.ID))
		b.Queue(`INSERT INTO calls (position, namespace, call_id, status, revision, last_sequence, created, updated, epoch, tool, caller, run_id, thread_id, crc, record, events_last, events_crc, events)
			VALUES ($1, $2, $3, $4, 1, 2, $5, $5, 1, $6, $7, $8, $9, 1, $10, 2, 1, $11)`, position, []byte(c.Namespace), []byte(c.ID), string(c.Status), now,
			[]byte(c.Tool), []byte(c.Caller.Subject), []byte(c.Run.ID), []byte(c.Run.Thread), record, events)
	})
	if err != nil {
		return err
	}
	c.Revision, c.Status, c.Executed, c.LastSequence = 2, call.Succeeded, call.Finished, 3
	c.Result = &tool.Result{Status: tool.StatusSuccess, Data: `{"ok":true}`}
	if record, events, err = forms(c, call.EventFinished); err != nil {
		return err
	}
	return d.transaction(ctx, func(b *pgx.Batch) {
		b.Queue("SELECT status, revision, last_sequence FROM calls WHERE namespace = $1 AND call_id = $2 FOR UPDATE", []byte(c.Namespace), []byte(c.ID))
		b.Queue("UPDATE calls SET status = $2, revision = 2, last_sequence = 3, updated = $3, ended = $3, crc = 1, record = $4 WHERE position = $1", position, string(c.Status), now, record)
		b.Queue("INSERT INTO events (position, call, epoch, first, last, crc, events) VALUES ($1, $2, 1, 3, 3, 1, $3)", -position, position, events)
	})
}

// transaction is one round trip.
func (d *directJournal) transaction(ctx context.Context, queue func(*pgx.Batch)) error {
	b := &pgx.Batch{}
	b.Queue("BEGIN")
	queue(b)
	b.Queue("COMMIT")
	return d.pool.SendBatch(ctx, b).Close()
}

// forms returns the stored forms of a call and of its newest events.
func forms(c *call.Call, types ...call.EventType) (record, events []byte, err error) {
	if record, err = call.EncodeCall(c); err != nil {
		return nil, nil, err
	}
	var list []call.Event
	for i, t := range types {
		list = append(list, event(c.LastSequence-int64(len(types)-1-i), t))
	}
	events, err = call.EncodeEvents(list)
	return record, events, err
}
