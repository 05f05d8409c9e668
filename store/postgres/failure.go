package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/toold-dev/toold/store"
)

// A failure is an error of the server or the connection. The refusal of a request is not a failure.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

var errReadOnly = errors.New("the server is read-only")

// wrapError wraps an error of the server in a failure with the matching error of package store.
func wrapError(err error) error {
	if err == nil || errors.As(err, new(*failure)) {
		return err
	}
	return &failure{fmt.Errorf("%w: %w", meaningOf(err), err)}
}

// meaningOf returns the error of package store for a SQLSTATE. A failed statement has written nothing, so no code is mapped to ErrFatal. A
// code that is not listed is mapped to ErrBusy, because the operation may succeed later.
func meaningOf(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return store.ErrBusy
	}
	switch pg.Code {
	case "53100": // disk full
		return store.ErrFull
	case "XX001", "XX002": // A page or an index is corrupt.
		return store.ErrCorrupt
	}
	switch pg.Code[:2] {
	case "21", "22", "23", "44", "54": // SQLSTATE classes, in order: cardinality, data, constraints, check option of a view, program limits
		return store.ErrRefused
	}
	return store.ErrBusy
}

// lost reports whether the server or the connection caused the error, rather than the statement. The same statement may succeed later.
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
		// These classes are, in order: connection, read-only or idle for too long, rolled back, out of resources, locked, stopped by the
		// operator.
		return true
	}
	return false
}
