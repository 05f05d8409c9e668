package sqlite

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
)

// meta is the one row that says what this journal is.
type meta struct {
	storeID  string
	epoch    int64
	clock    time.Time
	position int64
	file     string
	clean    bool
}

func readMeta(conn *sqlite.Conn) (m meta, err error) {
	err = query(conn, "SELECT store_id, epoch, clock, position, file, clean FROM meta", func(st *sqlite.Stmt) error {
		m = meta{st.ColumnText(0), st.ColumnInt64(1), columnTime(st, 2), st.ColumnInt64(3), st.ColumnText(4), st.ColumnBool(5)}
		return nil
	})
	return m, known(err)
}

// beginEpoch makes the start of this daemon durable before anything else is stored in it.
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
	return known(exec(conn, `INSERT INTO meta (id, store_id, epoch, clock, position, file, clean) VALUES (1, ?, ?, ?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET epoch = excluded.epoch, clock = excluded.clock, file = excluded.file, clean = 0`,
		id.StoreID, id.Epoch, s.clock.now().UnixNano(), m.position, m.file))
}

// Acknowledge remembers the file as it is now: an operator has released the calls of a store that was moved. Until then
// every start finds it moved.
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
		err = exec(conn, "UPDATE meta SET clean = 1, clock = ?", s.clock.now().UnixNano())
	}
	if err == nil {
		err = pragma(conn, "wal_checkpoint(TRUNCATE)", nil)
	}
	return known(err)
}

// A clock is the machine's, except that it never runs back. While it is ahead of the machine's, which ran ahead once, it
// advances with the time that passes.
type clock struct {
	machine func() time.Time

	mu   sync.Mutex
	last time.Time
	read time.Time // what the machine's was then, with its monotonic part
}

func newClock(machine func() time.Time, last time.Time) *clock {
	return &clock{machine: machine, last: last}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := c.machine()
	if passed := read.Sub(c.read); !c.read.IsZero() && passed > 0 {
		c.last = c.last.Add(passed)
	}
	c.read = read
	if now := read.Round(0).UTC(); now.After(c.last) {
		c.last = now
	}
	return c.last
}
