package sqlite

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

// Free returns how many bytes the file system of the journal has for this user.
func (s *Store) Free() (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(s.cfg.Dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

const countDead = "SELECT namespace, count(*) FROM actions INDEXED BY actions_dead WHERE state = 'DEAD' GROUP BY namespace"

// In the order of the index, so that nothing is sorted.
const selectWaiting = "SELECT action, count(*), min(call) FROM suspensions INDEXED BY suspensions_open WHERE open = 1 GROUP BY namespace, action"
