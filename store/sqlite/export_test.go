package sqlite

// Checkpoint writes an empty group and then copies the write-ahead log into the database, regardless of the log's size.
func (s *Store) Checkpoint() error {
	return s.write(func(w *writer) error {
		w.written = checkpointBytes
		return nil
	})
}
