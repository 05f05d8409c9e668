package postgres

import (
	"syscall"

	"github.com/toold-dev/toold/store"
)

// Stats returns what the journal has counted since it was opened.
func (s *Store) Stats() store.Stats {
	stats := s.Writer.Stats()
	stats.Output = s.spool.Output()
	return stats
}

// Free returns how many bytes the file system of the output has for this user. The server's own disk is not visible.
func (s *Store) Free() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.cfg.Dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

const selectWaiting = "SELECT action, count(*), min(call) FROM suspensions WHERE open GROUP BY action"
