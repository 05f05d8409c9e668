package sqlite

// Checkpoint writes a group of its own, after which the log is copied into the database however little was written.
func (s *Store) Checkpoint() error {
	return s.write(func(w *writer) error {
		w.written = checkpointBytes
		return nil
	})
}
