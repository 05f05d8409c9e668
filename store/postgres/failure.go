package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toold-dev/toold/store"
)

// A failure is what the server or the way to it said, in difference to what a request was refused for.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

var errReadOnly = errors.New("the server can only be read")

// said marks an error as the server's, and gives it its meaning for a store.
func said(err error) error {
	if err == nil || errors.As(err, new(*failure)) {
		return err
	}
	return &failure{fmt.Errorf("%w: %w", meaningOf(err), err)}
}

// meaningOf gives each SQLSTATE its place in the closed set of errors. A statement that failed has written nothing, so
// none is fatal by itself. What no row names may succeed later.
func meaningOf(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return store.ErrBusy
	}
	switch pg.Code {
	case "53100": // disk full
		return store.ErrFull
	case "XX001", "XX002": // a page or an index is corrupt
		return store.ErrCorrupt
	}
	switch pg.Code[:2] {
	case "21", "22", "23", "44", "54": // cardinality, data, constraints, a view's check, limits of the program
		return store.ErrRefused
	}
	return store.ErrBusy
}

// lost reports whether an error says that the server or the way to it is gone, or not ready, rather than what is wrong
// with a statement: the same may succeed later.
func lost(err error) bool {
	if !errors.As(err, new(*failure)) || errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrFatal) || errors.Is(err, context.Canceled) {
		return false
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	if len(pg.Code) != 5 {
		return false
	}
	switch pg.Code[:2] {
	case "08", "25", "40", "53", "55", "57":
		// The connection, read only or silent for too long, rolled back, out of resources, locked, stopped by the operator.
		return true
	}
	return false
}
