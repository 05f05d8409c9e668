package sqlite

import (
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/spool"
)

// Stats returns the counters of the journal since it was opened.
func (s *Store) Stats() store.Stats {
	stats := s.Writer.Stats()
	stats.Output = s.spool.Output()
	return stats
}

// Free returns the free bytes on the file system of the journal that this user may use.
func (s *Store) Free() (int64, error) { return spool.Free(s.cfg.Dir) }

const countDead = "SELECT namespace, count(*) FROM actions INDEXED BY actions_dead WHERE state = 'DEAD' GROUP BY namespace"

// The rows are grouped in the order of the index, so SQLite need not sort them.
const selectWaiting = "SELECT action, count(*), min(call) FROM suspensions INDEXED BY suspensions_open WHERE open = 1 GROUP BY namespace, action"
