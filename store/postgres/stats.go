package postgres

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

// Free returns the free bytes on the file system of the output that this user may use. The store cannot see the server's disk.
func (s *Store) Free() (int64, error) { return spool.Free(s.cfg.Dir) }

const selectWaiting = "SELECT action, count(*), min(call) FROM suspensions WHERE open GROUP BY action"
