package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/postgres/pgtest"
	"github.com/toold-dev/toold/tool"
)

const postgresWriters = 64

// postgresJournal compares the PostgreSQL journal with direct writes of the same rows. The journal commits the changes of many writers in
// one transaction. The direct writers use one transaction per change, each on its own connection.
func postgresJournal(ctx context.Context, s *settings) (out result, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(600)) // This is the setting of the daemon. It applies to the journal and to the direct writers.
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
	var a, b transitions
	for range s.rounds {
		if a, err = measureTransitions(ctx, s, server, func(n int64) error { return intentAndResult(ctx, j, n) }); err != nil {
			return out, err
		}
		if b, err = measureTransitions(ctx, s, server, func(n int64) error { return direct.intentAndResult(ctx, n) }); err != nil {
			return out, err
		}
		out.ratios = append(out.ratios, a.rate/b.rate)
	}
	out.detail = fmt.Sprintf("%.0f and %.0f transitions a second, CPU of server and writers %v and %v each", a.rate, b.rate, a.cpu.Round(time.Microsecond), b.cpu.Round(time.Microsecond))
	return out, nil
}

// transitions holds the number of transitions per second, and the CPU that each costs the server and the writers.
type transitions struct {
	rate float64
	cpu  time.Duration
}

// measureTransitions counts two transitions for each call of do.
func measureTransitions(ctx context.Context, s *settings, server *pgtest.Server, do func(n int64) error) (t transitions, err error) {
	before, err := postgresCPU(server)
	if err != nil {
		return t, err
	}
	began := time.Now()
	rate, err := straight(ctx, postgresWriters, s.duration, do)
	if err != nil {
		return t, err
	}
	n := max(time.Duration(2*rate*time.Since(began).Seconds()), 1)
	after, err := postgresCPU(server)
	return transitions{2 * rate, (after - before) / n}, err
}

// postgresCPU returns the processor time of the server's processes and of this process.
func postgresCPU(server *pgtest.Server) (sum time.Duration, err error) {
	all, err := server.Processes()
	if err != nil {
		return 0, err
	}
	for _, p := range append(all, os.Getpid()) {
		used, err := cpuOf(strconv.Itoa(p))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // an autovacuum process may have ended
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// A directJournal writes the rows of the journal, with its indexes, in one transaction per change.
type directJournal struct{ pool *pgxpool.Pool }

// openDirect creates the tables and returns a pool for the direct writers.
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
	for name, value := range map[string]string{ // use the same cached query plans as the journal
		"jit": "off", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "plan_cache_mode": "force_generic_plan",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
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
		b.Queue("SELECT 1 FROM calls WHERE namespace || '' = $1 AND call_id = $2 UNION ALL SELECT 2 FROM tombstones WHERE namespace = $1 AND call_id = $2",
			[]byte(c.Namespace), []byte(c.ID))
		b.Queue(`INSERT INTO calls (position, namespace, call_id, status, revision, last_sequence, created, updated, epoch, tool, caller, run_id, thread_id, crc, record, events_last, events_crc, events)
			VALUES ($1, $2, $3, $4, 1, 2, $5, $5, 1, $6, $7, $8, $9, 1, $10, 2, 1, $11)`, position, []byte(c.Namespace), []byte(c.ID), string(c.Status), now,
			[]byte(c.Tool), []byte(c.Caller.Subject), []byte(c.Run.ID), []byte(c.Run.Thread), record, events)
		b.Queue("INSERT INTO statuses (status, position, namespace, thread_id) VALUES ($1, $2, $3, $4)", string(c.Status), position, []byte(c.Namespace), []byte(c.Run.Thread))
	})
	if err != nil {
		return err
	}
	was := c.Status
	c.Revision, c.Status, c.Executed, c.LastSequence = 2, call.Succeeded, call.Finished, 3
	c.Result = &tool.Result{Status: tool.StatusSuccess, Data: `{"ok":true}`}
	if record, events, err = forms(c, call.EventFinished); err != nil {
		return err
	}
	return d.transaction(ctx, func(b *pgx.Batch) {
		b.Queue("SELECT status, revision, last_sequence FROM calls WHERE namespace || '' = $1 AND call_id = $2 FOR UPDATE", []byte(c.Namespace), []byte(c.ID))
		b.Queue("UPDATE calls SET status = $2, revision = 2, last_sequence = 3, updated = $3, ended = $3, crc = 1, record = $4 WHERE position = $1", position, string(c.Status), now, record)
		b.Queue("DELETE FROM statuses WHERE status = $1 AND namespace = $2 AND position = $3", string(was), []byte(c.Namespace), position)
		b.Queue("INSERT INTO ended (ended, position) VALUES ($1, $2)", now, position)
		b.Queue("INSERT INTO events (position, call, epoch, first, last, crc, events) VALUES ($1, $2, 1, 3, 3, 1, $3)", -position, position, events)
	})
}

// transaction sends all statements of a transaction in one round trip.
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
