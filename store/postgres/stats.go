package postgres

import (
	"syscall"

	"github.com/toold-dev/toold/store"
)

// Stats returns the counters of the journal since it was opened.
func (s *Store) Stats() store.Stats {
	stats := s.Writer.Stats()
	stats.Output = s.spool.Output()
	return stats
}

// Free returns the free bytes on the file system of the output that this user may use. The store cannot see the server's disk.
func (s *Store) Free() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.cfg.Dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

const selectWaiting = "SELECT action, count(*), min(call) FROM suspensions WHERE open GROUP BY action"
