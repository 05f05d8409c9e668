package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
)

// ErrNoStore means that a schema contains no store.
var ErrNoStore = errors.New("has no store")

// StoreRows reads the tables of a journal row by row, as of one moment, for a copy into another store. No daemon may have the journal open.
type StoreRows struct{ conn *pgx.Conn }

// Inspect reports the schema version of the journal at a URL, and checks without changing it whether Open would accept that version. It fails
// with [ErrNoStore], [ErrForeign] or [ErrNewer], and with [ErrInUse] when a daemon owns the journal. The versions are also valid with ErrNewer
// and ErrInUse.
func Inspect(ctx context.Context, url string) (v store.SchemaVersions, err error) {
	files, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return v, err
	}
	v.Latest = len(files)
	target, err := parse(url, time.Second)
	if err != nil {
		return v, err
	}
	conn, err := target.connect(ctx, func(map[string]string) {})
	if err != nil {
		return v, err
	}
	defer closeConn(conn)
	if err := refuseMissing(ctx, conn, target); err != nil {
		return v, fmt.Errorf("%s: %w", target, err)
	}
	if err := conn.QueryRow(ctx, "SELECT version FROM toold_journal").Scan(&v.Found); err != nil {
		return v, fmt.Errorf("%s: %w", target, wrapError(err))
	}
	if err := checkVersion(v.Found, v.Latest); err != nil {
		return v, fmt.Errorf("%s: %w", target, err)
	}
	return v, lock(ctx, conn, target)
}

// refuseMissing fails when the schema of the target has no journal.
func refuseMissing(ctx context.Context, conn *pgx.Conn, target *target) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", target.schema+".toold_journal").Scan(&there); err != nil {
		return wrapError(err)
	}
	if !there {
		return ErrNoStore
	}
	return nil
}

// OpenRows locks the journal at a URL and migrates it to the latest schema. The caller closes it.
func OpenRows(ctx context.Context, url string) (_ *StoreRows, err error) {
	target, err := parse(url, time.Second)
	if err != nil {
		return nil, err
	}
	conn, err := target.connect(ctx, func(p map[string]string) { // The database session may be idle for long, because the other store may write slowly.
		p["idle_in_transaction_session_timeout"] = "0"
		delete(p, "enable_seqscan") // The export reads whole tables.
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeConn(conn)
			err = fmt.Errorf("%s: %w", target, err)
		}
	}()
	if err := refuseMissing(ctx, conn, target); err != nil {
		return nil, err
	}
	if err := lock(ctx, conn, target); err != nil {
		return nil, err
	}
	if err := migrate(ctx, conn, target.schema, schema, func(string) error { return nil }); err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	return &StoreRows{conn}, wrapError(err)
}

// Close closes the connection, which releases the journal.
func (r *StoreRows) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), connectTime)
	defer cancel()
	return r.conn.Close(ctx)
}

// Table returns the rows of a table with these columns. Values are integers, strings, bytes, booleans and nil.
func (r *StoreRows) Table(ctx context.Context, name string, columns []string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		rows, err := r.conn.Query(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+pgx.Identifier{name}.Sanitize())
		if err != nil {
			yield(nil, wrapError(err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			if values, err := rows.Values(); !yield(values, wrapError(err)) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, wrapError(err))
		}
	}
}
