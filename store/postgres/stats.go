package postgres

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/toold-dev/toold/store"
)

// Stats returns what the journal has counted since it was opened.
func (s *Store) Stats() store.Stats {
	stats := s.Writer.Stats()
	stats.Output = s.spool.Output()
	return stats
}

// Free returns how many bytes the file system of the output has for this user. What the server has it does not tell.
func (s *Store) Free() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.cfg.Dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// DeadLetters returns how many actions failed for good, by namespace.
func (s *Store) DeadLetters(ctx context.Context) (dead map[string]int, err error) {
	var namespace []byte
	var n int64
	err = s.each(ctx, "SELECT namespace, count(*) FROM actions WHERE state = 'DEAD' GROUP BY namespace", []any{&namespace, &n},
		func() { dead = map[string]int{} }, func() error {
			dead[string(namespace)] = int(n)
			return nil
		})
	return dead, err
}

const selectWaiting = "SELECT action, count(*), min(call) FROM suspensions WHERE open GROUP BY action"

// Waiting returns how many questions are open, all namespaces, by action, and since when that of the oldest call is; zero
// when none is.
func (s *Store) Waiting(ctx context.Context) (open map[string]int, since time.Time, err error) {
	var action []byte
	var n, oldest, first int64
	err = s.each(ctx, selectWaiting, []any{&action, &n, &first}, func() { open, oldest = map[string]int{}, 0 }, func() error {
		open[string(action)] = int(n)
		if oldest == 0 || first < oldest {
			oldest = first
		}
		return nil
	})
	if err != nil || oldest == 0 {
		return open, since, err
	}
	rows, err := s.callRows(ctx, "SELECT "+callColumnList+" FROM calls WHERE position = $1", oldest)
	if errors.Is(err, store.ErrNotFound) || err == nil && (len(rows) == 0 || rows[0].err != nil) {
		return open, since, nil //nolint:nilerr // how many there are is known all the same
	}
	if err == nil && rows[0].call.Open() != nil {
		since = rows[0].call.Open().Created
	}
	return open, since, err
}
