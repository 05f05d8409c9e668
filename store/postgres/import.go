package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store/rows"
)

// ErrInUse means that a daemon has the store open.
var ErrInUse = errors.New("is in use")

// Import copies another store into a new store, in one transaction: after a failure there is no store. Before it commits, it reads the
// written rows back and compares them. Positions, sequences and the id of the store stay the same. A daemon that starts on the copy begins
// a new epoch, and runs no unfinished call until an operator releases it. This epoch is higher than any epoch that the other store can
// reach.
func Import(ctx context.Context, url string, from rows.Tables) (done []rows.Imported, err error) {
	target, err := parse(url, time.Second)
	if err != nil {
		return nil, err
	}
	conn, err := target.connect(ctx, func(p map[string]string) { // The database session may be idle for long, because the other store may read slowly.
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

// lockWithin is how long Import tries to take the lock. When an owner has just stopped, the server frees the owner's lock a moment later.
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

func importAll(ctx context.Context, tx pgx.Tx, target *target, from rows.Tables) (done []rows.Imported, err error) {
	var there int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM meta").Scan(&there); err != nil {
		return nil, err
	}
	if there > 0 {
		return nil, rows.ErrHasStore
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
		done = append(done, rows.Imported{Table: name, Rows: n})
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
	found, err := tx.Query(ctx, "SELECT table_name::text FROM information_schema.tables WHERE table_schema = $1 AND table_name NOT IN ('meta', 'toold_journal', 'statuses', 'ended') ORDER BY table_name", schema)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}

// importTable copies a table, reads the stored rows back and compares them with the copied rows.
func importTable(ctx context.Context, tx pgx.Tx, schema, name string, from rows.Tables) (n int64, err error) {
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
	written, read := rows.NewFingerprints()
	next, stop := iter.Pull2(from.Table(ctx, name, columns))
	defer stop()
	var unreadable error
	_, err = tx.CopyFrom(ctx, pgx.Identifier{name}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		values, err, more := next()
		if more && err == nil {
			err = convert(values, types)
		}
		if unreadable = err; !more || err != nil {
			return nil, err
		}
		written.Add(values)
		return values, nil
	}))
	if unreadable != nil {
		return 0, unreadable
	}
	if err != nil {
		return 0, err
	}
	found, err := tx.Query(ctx, "SELECT * FROM "+pgx.Identifier{name}.Sanitize())
	if err != nil {
		return 0, err
	}
	defer found.Close()
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			return 0, err
		}
		read.Add(values)
	}
	if err := found.Err(); err != nil {
		return 0, err
	}
	return written.Compare(read)
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

// importMeta gives the new store the identity of the store that it was copied from, and marks the new store as moved. A daemon that starts
// on it then runs no unfinished call until an operator releases it.
func importMeta(ctx context.Context, tx pgx.Tx, from rows.Tables) error {
	id, err := rows.Identity(ctx, from)
	if err == nil {
		_, err = tx.Exec(ctx, "INSERT INTO meta (id, store_id, epoch, clock, position, groups, place, clean) VALUES (1, $1, $2, $3, $4, 0, 'copied', false)", id...)
	}
	return err
}
