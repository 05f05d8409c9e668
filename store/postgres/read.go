package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// read invokes f with a reading connection. When the server is lost, read invokes f again from the beginning, for up to Config.Lease.
func (s *Store) read(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	pause := 5 * time.Millisecond
	for until := time.Now().Add(s.cfg.Lease); ; pause = min(2*pause, 500*time.Millisecond) {
		if err := s.Refusal(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.readOnce(ctx, f)
		if err == nil || ctx.Err() != nil || !lost(err) || time.Now().After(until) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		select {
		case <-ctx.Done():
		case <-s.Done():
		case <-time.After(pause):
		}
	}
}

func (s *Store) readOnce(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Lease)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		if refused := s.Refusal(); refused != nil {
			return refused
		}
		return wrapError(err)
	}
	defer conn.Release()
	return f(ctx, conn.Conn())
}

// each scans each row of a statement into dest and then invokes row. It invokes reset each time before it executes the statement.
func (s *Store) each(ctx context.Context, text string, dest []any, reset func(), row func() error, args ...any) error {
	args = bind(args)
	return s.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		reset()
		return scan(ctx, conn, text, dest, row, args...)
	})
}

// scan runs a statement once, scans each row into dest and then invokes row.
func scan(ctx context.Context, conn *pgx.Conn, text string, dest []any, row func() error, args ...any) error {
	found, err := conn.Query(ctx, text, args...)
	if err != nil {
		return wrapError(err)
	}
	defer found.Close()
	for found.Next() {
		if err := found.Scan(dest...); err != nil {
			return wrapError(err)
		}
		if err := row(); errors.Is(err, rows.ErrEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return wrapError(found.Err())
}

// row reads one row. It returns ErrNotFound when there is none.
func (s *Store) row(ctx context.Context, text string, dest []any, args ...any) error {
	found := false
	err := s.each(ctx, text, dest, func() { found = false }, func() error { found = true; return nil }, args...)
	if err == nil && !found {
		err = store.ErrNotFound
	}
	return err
}
