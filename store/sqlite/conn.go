package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/rows"
)

// oldest is the first SQLite release without a bug that could corrupt a database when its write-ahead log is restarted.
var oldest = [3]int{3, 51, 3}

// A failure is an error of the database. The refusal of a change is not a failure.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// pageSize is a compromise. With it, the rows of calls waste little space, and a group needs half as many file system operations as with 4
// KiB. With 16 KiB, measurements showed no further gain.
const pageSize = 8192

// owned returns the URI of a database that only this process uses. SQLite then locks the database once. Otherwise it would take two file
// locks in each transaction.
func owned(path string) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?vfs=unix-excl"
}

func openConn(path string, maxBytes int64) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(owned(path), sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	if err := checkVersion(conn); err != nil {
		conn.Close()
		return nil, err
	}
	conn.SetBusyTimeout(10 * time.Second)
	pragmas := []string{
		fmt.Sprintf("page_size = %d", pageSize), // applies to a new database only
		"journal_mode = WAL",
		"synchronous = FULL",
		"wal_autocheckpoint = 0",        // The writer runs the checkpoints itself and handles their errors.
		"journal_size_limit = 67108864", // After a burst, SQLite truncates the log to 64 MiB.
		"cache_size = -16384",
		"temp_store = MEMORY",
	}
	if maxBytes > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count = %d", max(1, maxBytes/pageSize)))
	}
	return conn, applyPragmas(conn, pragmas)
}

func openReader(path string, cacheKiB int) (*sqlite.Conn, error) {
	conn, err := sqlite.OpenConn(owned(path), sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(10 * time.Second)
	return conn, applyPragmas(conn, []string{"query_only = 1", fmt.Sprintf("cache_size = -%d", cacheKiB), "temp_store = MEMORY"})
}

func applyPragmas(conn *sqlite.Conn, pragmas []string) error {
	for _, p := range pragmas {
		if err := pragma(conn, p, nil); err != nil {
			conn.Close()
			return err
		}
	}
	return nil
}

// pragma runs a pragma. It does not cache the statement: some pragmas take effect when they are compiled, so a cached statement would do
// nothing.
func pragma(conn *sqlite.Conn, p string, row func(*sqlite.Stmt)) (err error) {
	stmt, _, err := conn.PrepareTransient("PRAGMA " + p)
	if err != nil {
		return &failure{fmt.Errorf("pragma %s: %w", p, err)}
	}
	defer func() { err = errors.Join(err, stmt.Finalize()) }()
	for {
		more, err := stmt.Step()
		if err != nil {
			return &failure{fmt.Errorf("pragma %s: %w", p, err)}
		}
		if !more {
			return nil
		}
		if row != nil {
			row(stmt)
		}
	}
}

func checkVersion(conn *sqlite.Conn) error {
	var version string
	err := query(conn, "SELECT sqlite_version()", func(st *sqlite.Stmt) error {
		version = st.ColumnText(0)
		return nil
	})
	if err != nil {
		return err
	}
	var have [3]int
	for i, part := range strings.SplitN(version, ".", 3) {
		if have[i], err = strconv.Atoi(part); err != nil {
			return fmt.Errorf("SQLite version %q: %w", version, err)
		}
	}
	for i := range have {
		if have[i] != oldest[i] {
			if have[i] < oldest[i] {
				return fmt.Errorf("SQLite %s is older than %v", version, oldest)
			}
			break
		}
	}
	return nil
}

// query runs a statement, which the connection caches, and invokes row with each row. If row is nil, it ignores the rows.
func query(conn *sqlite.Conn, text string, row func(*sqlite.Stmt) error, args ...any) error {
	st, err := conn.Prepare(text)
	if err != nil {
		return &failure{err}
	}
	for i, a := range args {
		bind(st, i+1, a)
	}
	return each(st, row)
}

// run runs a statement whose parameters are bound and ignores its rows.
func run(st *sqlite.Stmt) error { return each(st, nil) }

func each(st *sqlite.Stmt, row func(*sqlite.Stmt) error) error {
	for {
		more, err := st.Step()
		if err != nil {
			return &failure{err}
		}
		if !more {
			return nil
		}
		if row == nil {
			continue
		}
		if err := row(st); err != nil {
			if errors.Is(err, rows.ErrEnough) {
				err = nil
			}
			return errors.Join(err, st.Reset())
		}
	}
}

func exec(conn *sqlite.Conn, text string, args ...any) error { return query(conn, text, nil, args...) }

func bind(st *sqlite.Stmt, i int, a any) {
	switch a := a.(type) {
	case nil:
		st.BindNull(i)
	case int64:
		st.BindInt64(i, a)
	case int:
		st.BindInt64(i, int64(a))
	case uint32:
		st.BindInt64(i, int64(a))
	case bool:
		st.BindBool(i, a)
	case string:
		st.BindText(i, a)
	case []byte:
		st.BindBytes(i, a)
	case call.Stamp:
		if a != 0 { // Zero leaves the parameter NULL.
			st.BindInt64(i, int64(a))
		}
	default:
		panic(fmt.Sprintf("sqlite: bind %T", a))
	}
}

// bindID leaves the parameter NULL when the id is empty.
func bindID(st *sqlite.Stmt, i int, id string) {
	if id != "" {
		st.BindText(i, id)
	}
}

// appendColumn appends the bytes of a text or blob column.
func appendColumn(b []byte, st *sqlite.Stmt, col int) []byte {
	n := st.ColumnLen(col)
	b = slices.Grow(b, n)
	return b[:len(b)+st.ColumnBytes(col, b[len(b):len(b)+n])]
}

func columnBytes(st *sqlite.Stmt, col int) []byte {
	b := make([]byte, st.ColumnLen(col))
	st.ColumnBytes(col, b)
	return b
}

// A stmtRow adapts a row of a statement to [rows.Row].
type stmtRow struct{ *sqlite.Stmt }

func (r stmtRow) Int(col int) int64 { return r.ColumnInt64(col) }

func (r stmtRow) Text(col int) string { return r.ColumnText(col) }

func (r stmtRow) Bytes(col int) []byte { return columnBytes(r.Stmt, col) }

func (r stmtRow) Null(col int) bool { return r.ColumnIsNull(col) }

// Query implements [rows.Database].
func (s *Store) Query(ctx context.Context, text string, reset func(), row func(rows.Row) error, args ...any) error {
	reset()
	return s.read(ctx, func(conn *sqlite.Conn) error {
		return query(conn, text, func(st *sqlite.Stmt) error { return row(stmtRow{st}) }, args...)
	})
}

// queries contains the SQL texts for [rows.Reader].
var queries = rows.Queries{
	Due: selectDue, DueNamespaces: selectDueNamespaces, NextExpiry: selectNextExpiry, Waiting: selectWaiting, RunCounts: selectRunCounts,
	Counts: selectCounts, CountsOf: selectCountsOf, ActionsOf: selectActionsOf, Expiring: selectExpiring, Records: selectRecords, RecordsBefore: selectRecordsBefore, OpenBatches: selectOpenBatches, DeadLetters: countDead,
}

// snapshotTime is how long a reader may hold a snapshot. It is short, because the write-ahead log cannot restart while a reader holds one.
const snapshotTime = 50 * time.Millisecond

// read lends a reader connection to f, and translates the errors of the database. Each statement in f sees one state of the journal; use
// readAll when several statements must see the same state.
func (s *Store) read(ctx context.Context, f func(*sqlite.Conn) error) error {
	if err := s.Refusal(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var conn *sqlite.Conn
	select {
	case conn = <-s.readers:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.Done():
		return s.Refusal()
	}
	defer func() { s.readers <- conn }()
	if err := s.Refusal(); err != nil {
		return err
	}
	return mapError(f(conn))
}

// readAll is like read, but runs f in one transaction: all statements in f see the same state.
func (s *Store) readAll(ctx context.Context, f func(*sqlite.Conn) error) error {
	return s.read(ctx, func(conn *sqlite.Conn) error {
		if err := exec(conn, "BEGIN"); err != nil {
			return err
		}
		err := f(conn)
		return errors.Join(err, exec(conn, "COMMIT"))
	})
}

// mapError translates an error of the database to an error of package store.
func mapError(err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return err
	}
	for _, meaning := range [...]error{store.ErrFull, store.ErrBusy, store.ErrRefused, store.ErrCorrupt, store.ErrFatal} {
		if errors.Is(err, meaning) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", meaningOf(sqlite.ErrCode(f.error)), err)
}

// meaningOf returns the error of package store for a SQLite result code. A code that is not listed is mapped to ErrBusy, because the
// operation may succeed later.
func meaningOf(code sqlite.ResultCode) error {
	switch code {
	case sqlite.ResultIOErrSHMSize:
		return store.ErrFull
	case sqlite.ResultIOErrRead, sqlite.ResultIOErrShortRead:
		return store.ErrCorrupt // Only this read fails; nothing was written.
	case sqlite.ResultIOErrNoMem:
		return store.ErrBusy
	case sqlite.ResultReadOnlyDBMoved:
		return store.ErrFatal // The database file was renamed or deleted, so later writes are lost.
	}
	switch code.ToPrimary() {
	case sqlite.ResultFull:
		return store.ErrFull
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return store.ErrCorrupt
	case sqlite.ResultIOErr:
		return store.ErrFatal
	case sqlite.ResultTooBig, sqlite.ResultConstraint, sqlite.ResultMismatch, sqlite.ResultRange:
		return store.ErrRefused
	}
	return store.ErrBusy
}
