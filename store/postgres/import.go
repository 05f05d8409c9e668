package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store/rows"
)

var (
	// ErrOccupied means that the destination of a copy already has a store.
	ErrOccupied = errors.New("has a store already")
	// ErrInUse means that a daemon has the store open.
	ErrInUse = errors.New("is in use")
)

// Rows gives access to the rows of a journal. Values are integers, strings, bytes and nil.
type Rows interface {
	Table(ctx context.Context, name string, columns []string) iter.Seq2[[]any, error]
}

// An Imported reports how many rows of a table were copied.
type Imported struct {
	Table string
	Rows  int64
}

// Import copies another store into a new store, in one transaction: after a failure there is no store. Before it commits, it reads the
// written rows back and compares them. Positions and the ids of the store and of its events stay the same. A daemon that starts on the copy
// begins a new epoch, and holds the unfinished calls. Its epoch is higher than any epoch that the other store can reach.
func Import(ctx context.Context, url string, from Rows) (done []Imported, err error) {
	target, err := parse(url, time.Second)
	if err != nil {
		return nil, err
	}
	conn, err := target.connect(ctx, func(p map[string]string) { // The session may be idle for long, because the other store may read slowly.
		p["idle_in_transaction_session_timeout"] = "0"
	})
	if err != nil {
		return nil, err
	}
	defer closeConn(conn)
	if err := lock(ctx, conn, target); err != nil {
		return nil, err
	}
	if err := migrate(ctx, conn, target.schema, schema, func(string) error { return nil }); err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
		done, err = importAll(ctx, tx, target, from)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target, err)
	}
	_, err = conn.Exec(ctx, "ANALYZE")
	return done, err
}

// lockWithin is how long the lock is tried: when an owner has just stopped, the server frees its lock a moment later.
const lockWithin = 2 * time.Second

func lock(ctx context.Context, conn *pgx.Conn, target *target) error {
	class, id := target.lockKey()
	for until := time.Now().Add(lockWithin); ; time.Sleep(20 * time.Millisecond) {
		var mine bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1::int, $2::int)", class, id).Scan(&mine); err != nil || mine {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s %w", target, ErrInUse)
		}
	}
}

func importAll(ctx context.Context, tx pgx.Tx, target *target, from Rows) (done []Imported, err error) {
	var there int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM meta").Scan(&there); err != nil {
		return nil, err
	}
	if there > 0 {
		return nil, ErrOccupied
	}
	names, err := tables(ctx, tx, target.schema)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		n, err := importTable(ctx, tx, target.schema, name, from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		done = append(done, Imported{name, n})
	}
	for _, text := range []string{
		"INSERT INTO statuses (status, namespace, position, thread_id) SELECT status, namespace, position, thread_id FROM calls WHERE status <> 'SUCCEEDED'",
		"INSERT INTO ended (ended, position) SELECT ended, position FROM calls WHERE ended IS NOT NULL",
	} {
		if _, err := tx.Exec(ctx, text); err != nil {
			return nil, err
		}
	}
	return done, importMeta(ctx, tx, from)
}

// tables returns the tables to copy. It leaves out the tables that index calls by status and end, because they are derived from the calls.
func tables(ctx context.Context, tx pgx.Tx, schema string) (names []string, err error) {
	rows, err := tx.Query(ctx, "SELECT table_name::text FROM information_schema.tables WHERE table_schema = $1 AND table_name NOT IN ('meta', 'toold_journal', 'statuses', 'ended') ORDER BY table_name", schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// importTable copies a table and compares the stored rows with the copied rows.
func importTable(ctx context.Context, tx pgx.Tx, schema, name string, from Rows) (n int64, err error) {
	var columns, types []string
	var column, kind string
	err = scan(ctx, tx.Conn(), "SELECT column_name::text, data_type::text FROM information_schema.columns WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position",
		[]any{&column, &kind}, func() error {
			columns, types = append(columns, column), append(types, kind)
			return nil
		}, schema, name)
	if err != nil {
		return 0, err
	}
	came := newFingerprint()
	next, stop := iter.Pull2(from.Table(ctx, name, columns))
	defer stop()
	var unreadable error
	n, err = tx.CopyFrom(ctx, pgx.Identifier{name}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		values, err, more := next()
		if more && err == nil {
			err = convert(values, types)
		}
		if unreadable = err; !more || err != nil {
			return nil, err
		}
		came.add(values)
		return values, nil
	}))
	if unreadable != nil {
		return 0, unreadable
	}
	if err != nil {
		return 0, err
	}
	is := newFingerprint()
	is.seed = came.seed
	rows, err := tx.Query(ctx, "SELECT * FROM "+pgx.Identifier{name}.Sanitize())
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return 0, err
		}
		is.add(values)
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	if *is != *came || n != came.rows {
		return 0, fmt.Errorf("the copy differs from what was written: read back %d of %d rows", is.rows, came.rows)
	}
	return n, nil
}

// convert converts values in place to the types of the columns.
func convert(values []any, types []string) error {
	for i, v := range values {
		ok := false
		switch v := v.(type) {
		case nil:
			ok = true
		case string:
			if ok = types[i] == "text" || types[i] == "bytea"; types[i] == "bytea" {
				values[i] = []byte(v)
			}
		case []byte:
			if ok = types[i] == "bytea"; v == nil {
				values[i] = []byte{}
			}
		case int64:
			if ok = types[i] == "bigint" || types[i] == "boolean"; types[i] == "boolean" {
				values[i] = v != 0
			}
		}
		if !ok {
			return fmt.Errorf("a value of the type %T for a column of the type %s", v, types[i])
		}
	}
	return nil
}

// A fingerprint is a hash of rows that does not depend on their order.
type fingerprint struct {
	seed maphash.Seed
	rows int64
	sum  uint64
}

func newFingerprint() *fingerprint { return &fingerprint{seed: maphash.MakeSeed()} }

func (f *fingerprint) add(values []any) {
	var h maphash.Hash
	h.SetSeed(f.seed)
	word := func(kind byte, b []byte) {
		h.WriteByte(kind)
		h.Write(rows.AppendLength(nil, len(b)))
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

// importMeta writes the identity of the copy and marks the copy as moved. The epochs of the copy start at the current Unix time in seconds.
// The original cannot reach these epochs, because daemons start less than once a second on average.
func importMeta(ctx context.Context, tx pgx.Tx, from Rows) error {
	for values, err := range from.Table(ctx, "meta", []string{"store_id", "epoch", "clock", "position"}) {
		if err != nil {
			return err
		}
		epoch, ok := values[1].(int64)
		if !ok {
			return fmt.Errorf("epoch %v", values[1])
		}
		_, err = tx.Exec(ctx, "INSERT INTO meta (id, store_id, epoch, clock, position, groups, place, clean) VALUES (1, $1, $2, $3, $4, 0, 'copied', false)",
			values[0], max(epoch, time.Now().Unix()), values[2], values[3])
		return err
	}
	return errors.New("the other store has never been used")
}
