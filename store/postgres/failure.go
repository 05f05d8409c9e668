package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "53100":
			err = fmt.Errorf("%w: %w", store.ErrFull, err)
		case "XX001", "XX002":
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
	}
	return &failure{err}
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
	switch pg.Code {
	case "57P01", "57P02", "57P03", "57P05", "25P03", // shut down, crashed, starting, silent for too long
		"53300", "25006", "55P03", "40001", "40P01": // too many connections, read only, locked, serialization, deadlock
		return true
	}
	return strings.HasPrefix(pg.Code, "08")
}
