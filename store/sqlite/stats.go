package sqlite

import (
	"context"
	"errors"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
)

// Stats returns what the journal has counted since it was opened.
func (s *Store) Stats() store.Stats {
	stats := s.Writer.Stats()
	stats.Output = s.spool.Output()
	return stats
}

// Free returns how many bytes the file system of the journal has for this user.
func (s *Store) Free() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.cfg.Dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// DeadLetters returns how many actions failed for good, by namespace.
func (s *Store) DeadLetters(ctx context.Context) (map[string]int, error) {
	dead := map[string]int{}
	return dead, s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, countDead, func(st *sqlite.Stmt) error {
			dead[st.ColumnText(0)] = st.ColumnInt(1)
			return nil
		})
	})
}

const countDead = "SELECT namespace, count(*) FROM actions INDEXED BY actions_dead WHERE state = 'DEAD' GROUP BY namespace"

// In the order of the index, so that nothing is sorted.
const selectWaiting = "SELECT action, count(*), min(call) FROM suspensions INDEXED BY suspensions_open WHERE open = 1 GROUP BY namespace, action"

// Waiting returns how many questions are open, all namespaces, by action, and since when that of the oldest call is; zero
// when none is.
func (s *Store) Waiting(ctx context.Context) (open map[string]int, since time.Time, err error) {
	open = map[string]int{}
	oldest := int64(0)
	err = s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, selectWaiting, func(st *sqlite.Stmt) error {
			open[st.ColumnText(0)] += int(st.ColumnInt64(1))
			if first := st.ColumnInt64(2); oldest == 0 || first < oldest {
				oldest = first
			}
			return nil
		})
	})
	if err != nil || oldest == 0 {
		return open, since, err
	}
	c, err := s.one(ctx, "SELECT "+callColumns+" FROM calls WHERE position = ?", oldest)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return open, since, nil // how many there are is known all the same
	}
	if err == nil && c.Open() != nil {
		since = c.Open().Created
	}
	return open, since, err
}
