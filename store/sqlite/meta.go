package sqlite

import (
	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// meta is the only row of the table meta. It identifies the journal.
type meta struct {
	storeID  string
	epoch    int64
	clock    call.Stamp
	position int64
	file     string
	clean    bool
}

func readMeta(conn *sqlite.Conn) (m meta, err error) {
	err = query(conn, "SELECT store_id, epoch, clock, position, file, clean FROM meta", func(st *sqlite.Stmt) error {
		m = meta{st.ColumnText(0), st.ColumnInt64(1), call.Stamp(st.ColumnInt64(2)), st.ColumnInt64(3), st.ColumnText(4), st.ColumnBool(5)}
		return nil
	})
	return m, mapError(err)
}

// beginEpoch stores the new epoch before the daemon stores anything else.
func (s *Store) beginEpoch(conn *sqlite.Conn, m meta) error {
	file, err := s.files.inode()
	if err != nil {
		return err
	}
	id := store.Identity{StoreID: m.storeID, Epoch: m.epoch + 1, Clean: m.clean || m.epoch == 0}
	if m.epoch == 0 {
		id.StoreID, m.file = uuid.NewString(), file
	}
	if m.file != file {
		if id.Moved = !s.cfg.Moved; s.cfg.Moved {
			m.file = file
		}
	}
	s.id.Store(&id)
	s.writer.first = m
	return s.storeEpoch(conn)
}

func (s *Store) storeEpoch(conn *sqlite.Conn) error {
	m, id := s.writer.first, s.Identity()
	return mapError(exec(conn, `INSERT INTO meta (id, store_id, epoch, clock, position, file, clean) VALUES (1, ?, ?, ?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET epoch = excluded.epoch, clock = excluded.clock, file = excluded.file, clean = 0`,
		id.StoreID, id.Epoch, int64(s.Now()), m.position, m.file))
}

// Acknowledge records that the current file is the store's own file. It is called when an operator has released the calls of a moved store.
// Until then, every start reports the store as moved.
func (s *Store) Acknowledge() error {
	file, err := s.files.inode()
	if err != nil {
		return err
	}
	err = s.write(func(w *writer) error { return exec(w.conn, "UPDATE meta SET file = ?", file) })
	if err != nil {
		return err
	}
	id := s.Identity()
	id.Moved = false
	s.id.Store(&id)
	return nil
}

// endEpoch writes the mark of a clean end and empties the write-ahead log.
func (s *Store) endEpoch() error {
	conn := s.writer.conn
	err := pragma(conn, "synchronous = FULL", nil)
	if err == nil {
		err = exec(conn, "UPDATE meta SET clean = 1, clock = ?", int64(s.Now()))
	}
	if err == nil {
		err = pragma(conn, "wal_checkpoint(TRUNCATE)", nil)
	}
	return mapError(err)
}
