package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNoStore means that a schema contains no store.
var ErrNoStore = errors.New("has no store")

// StoreRows reads the tables of a journal row by row, as of one moment, for a copy into another store. No daemon may have the journal open.
type StoreRows struct{ conn *pgx.Conn }

// OpenRows opens the journal at a URL. The caller closes it.
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
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", target.schema+".toold_journal").Scan(&there); err != nil {
		return nil, wrapError(err)
	}
	if !there {
		return nil, ErrNoStore
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
