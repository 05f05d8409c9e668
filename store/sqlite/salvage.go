package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/dirlock"
)

// Salvaged reports what [Salvage] saved.
type Salvaged struct {
	Tables []SalvagedTable
	// Refused lists the calls whose record or log is partly damaged. They are in the new journal; reading a damaged part returns
	// ErrCorrupt.
	Refused []call.Key
	// Lost lists the calls of which only the id could be saved. Each has a tombstone, so that its id is never used for another call.
	Lost  []call.Key
	Files int // number of output files
}

// A SalvagedTable reports how much of one table was saved.
type SalvagedTable struct {
	Name string
	Rows int
	// Damaged means that a part of the table or of its indexes is broken, so rows may be missing.
	Damaged bool
}

// Salvage copies everything that can still be read in the journal in src into a new journal in dst. It reads row by row, so a broken page
// loses only the rows on it. The journal in src does not change. No daemon may have it open.
//
// A row with a wrong checksum is copied unchanged, and reading it fails. The new journal counts as moved: its unfinished calls wait for an
// operator, because it is unknown what the daemon did after the damage.
func Salvage(ctx context.Context, src, dst string) (_ *Salvaged, err error) {
	lock, err := dirlock.Take(filepath.Join(src, "lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if _, err := os.Stat(filepath.Join(dst, "journal.db")); !errors.Is(err, fs.ErrNotExist) {
		return nil, cmp.Or(err, fmt.Errorf("%s has a journal: salvage into a new directory", dst))
	}
	f, err := openFiles(dst)
	if err != nil {
		return nil, err
	}
	defer f.close()
	s := &salvage{ctx: ctx, report: &Salvaged{}}
	defer func() { err = errors.Join(err, s.close()) }()
	if s.w, err = newJournal(f.database); err != nil {
		return nil, err
	}
	damaged := filepath.Join(dst, "damaged.db")
	defer func() {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(damaged + suffix)
		}
	}()
	if err := s.open(filepath.Join(src, "journal.db"), damaged, f.database); err != nil {
		return nil, err
	}
	if err := s.copy(); err != nil {
		return nil, err
	}
	s.report.Files, err = copyTree(filepath.Join(src, "spool"), filepath.Join(dst, "spool"))
	return s.report, err
}

// newJournal makes an empty journal without an epoch.
func newJournal(path string) (*writer, error) {
	conn, err := openConn(path, 0)
	if err != nil {
		return nil, err
	}
	w := newWriter(&Store{ids: newIDFilter()})
	w.conn = conn
	if err := migrate(conn, schema); err != nil {
		return w, err
	}
	return w, mapError(pragma(conn, "wal_checkpoint(TRUNCATE)", nil)) // Empty the log, because mend reads the first page from the database file.
}

// A salvage is the state of salvaging one journal.
type salvage struct {
	ctx    context.Context
	from   *sqlite.Conn // a copy of the damaged journal
	w      *writer      // writes the new journal
	report *Salvaged
	meta   meta
	newest int64 // the newest position found
	epoch  int64 // the newest epoch found
}

func (s *salvage) close() (err error) {
	if s.from != nil {
		_ = s.from.Close() // Ignore the error, because closing a damaged database may fail.
	}
	if s.w != nil {
		err = s.w.conn.Close()
	}
	return err
}

// open copies the damaged journal and repairs the parts that SQLite needs to open it: the header and, if the schema cannot be read, the
// schema pages. The schema pages are the same in a new journal.
func (s *salvage) open(src, damaged, fresh string) error {
	for _, suffix := range []string{"", "-wal"} {
		if err := copyFile(src+suffix, damaged+suffix); err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	whole, err := os.ReadFile(fresh)
	if err != nil {
		return err
	}
	if err := mend(damaged, whole, headerSize); err != nil {
		return err
	}
	if s.from, err = openDamaged(s.ctx, damaged); err == nil {
		return nil
	}
	if err := mend(damaged, whole, pageSize); err != nil {
		return err
	}
	s.from, err = openDamaged(s.ctx, damaged)
	return err
}

func openDamaged(ctx context.Context, path string) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	conn.SetInterrupt(ctx.Done())
	n := 0
	err = query(conn, "SELECT count(*) FROM sqlite_schema WHERE name IN ('calls', 'events', 'decisions', 'documents', 'runs', 'records', 'tombstones')", func(st *sqlite.Stmt) error {
		n = st.ColumnInt(0)
		return nil
	})
	if err == nil && n < 7 {
		err = errors.New("tables are missing")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

const headerSize = 100

// mend replaces the parts of a damaged journal that are equal in every journal with those of a sound journal. In the header these are the
// signature, the file format, the vacuum mode, the encoding, and the application id and schema version of toold. If n exceeds the size of
// the header, these are also the rest of the first n bytes and the schema pages.
func mend(path string, sound []byte, n int) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	page := make([]byte, pageSize)
	if _, err := io.ReadFull(f, page); err != nil {
		return fmt.Errorf("%w: %s has no first page: %w", ErrForeign, path, err)
	}
	const version = 60
	if v, have := page[version+3], sound[version+3]; string(page[version:version+3]) == "\x00\x00\x00" && v > have && v < have+32 && string(page[:16]) == string(sound[:16]) {
		return fmt.Errorf("%w: version %d", ErrNewer, v)
	}
	for _, part := range [][2]int{{0, 24}, {44, 48}, {52, 72}, {headerSize, n}} {
		if part[0] < part[1] {
			copy(page[part[0]:part[1]], sound[part[0]:part[1]])
		}
	}
	clear(page[24:44]) // Clear the size, so that SQLite uses the size of the file. This also clears the list of free pages, which is not needed here.
	clear(page[92:96]) // Clear the change counter too: it says for which change the size in the header is valid.
	_, err = f.WriteAt(page, 0)
	for _, at := range schemaPages(sound) {
		if err == nil && n > headerSize {
			_, err = f.WriteAt(sound[at:at+pageSize], int64(at))
		}
	}
	return err
}

// schemaPages returns the offsets of the schema pages of a sound journal, except the first page.
func schemaPages(sound []byte) (at []int) {
	const interior, cells, rightmost, pointers = 5, headerSize + 3, headerSize + 8, headerSize + 12
	if sound[headerSize] != interior {
		return nil
	}
	child := func(at int) int { return (int(binary.BigEndian.Uint32(sound[at:])) - 1) * pageSize }
	for n := range int(binary.BigEndian.Uint16(sound[cells:])) {
		at = append(at, child(int(binary.BigEndian.Uint16(sound[pointers+2*n:]))))
	}
	return append(at, child(rightmost))
}

func copyFile(src, dst string) (err error) {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// copyTree copies the output of calls. It skips unreadable files and directories.
func copyTree(src, dst string) (files int, err error) {
	err = filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a directory that cannot be read is what salvage is for
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		if copyFile(path, to) == nil {
			files++
		}
		return nil
	})
	return files, err
}

// keepIdentity writes the identity of the new journal: that of the old journal, marked as moved.
func (s *salvage) keepIdentity() error {
	if s.meta.storeID == "" {
		s.meta.storeID = uuid.NewString()
	}
	return exec(s.w.conn, "INSERT INTO meta (id, store_id, epoch, clock, position, file, clean) VALUES (1, ?, ?, ?, ?, 'salvaged', 0)",
		s.meta.storeID, max(s.meta.epoch, s.epoch, 1), int64(s.meta.clock), s.newest)
}
