package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/toold-dev/toold/store"
)

// applicationID is "tool" in ASCII. file(1) and toold recognize a journal by it.
const applicationID = 0x746f6f6c

// ErrNewer means that a later release of toold has written this journal.
var ErrNewer = errors.New("journal has the schema of a newer toold")

// The files in schema are applied in order. The version of a journal is the number of applied files. A released file never changes.
//
//go:embed schema/*.sql
var schema embed.FS

// schemaVersion returns the number of schema files that a database has; 0 is a new database. It fails when the database is not a journal, or
// has more than the latest schema file.
func schemaVersion(conn *sqlite.Conn, latest int64) (version int64, err error) {
	var id int64
	err = pragma(conn, "application_id", func(st *sqlite.Stmt) { id = st.ColumnInt64(0) })
	if err == nil {
		err = pragma(conn, "user_version", func(st *sqlite.Stmt) { version = st.ColumnInt64(0) })
	}
	if err != nil {
		return 0, mapError(err)
	}
	switch {
	case id != applicationID && (id != 0 || version != 0):
		return version, fmt.Errorf("%w: application id %#x", ErrForeign, id)
	case version < 0 || version == 0 && id == applicationID:
		return version, fmt.Errorf("%w: user_version %d in the header of the database", store.ErrCorrupt, version)
	case version > latest:
		return version, fmt.Errorf("%w: version %d; this toold knows versions up to %d", ErrNewer, version, latest)
	}
	return version, nil
}

// migrate applies the missing schema files in one transaction. A new database costs one sync. There is no downgrade.
func migrate(conn *sqlite.Conn, schemas fs.FS) error {
	names, err := fs.Glob(schemas, "schema/*.sql")
	if err != nil {
		return err
	}
	latest := int64(len(names))
	version, err := schemaVersion(conn, latest)
	if err != nil {
		return err
	}
	if version == latest {
		return nil
	}
	var script strings.Builder
	for _, name := range names[version:] {
		text, err := fs.ReadFile(schemas, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&script, "%s\n", text)
	}
	fmt.Fprintf(&script, "PRAGMA application_id = %d;\nPRAGMA user_version = %d;\n", applicationID, latest)
	if err := sqlitex.ExecScript(conn, script.String()); sqlite.ErrCode(err) == sqlite.ResultError {
		return fmt.Errorf("%w: user_version %d in the header of the database is not what its tables have: %w", store.ErrCorrupt, version, err)
	} else if err != nil {
		return fmt.Errorf("schema %d to %d: %w", version, latest, mapError(&failure{err}))
	}
	return nil
}

// check checks the structure of the whole file. It does not check the content of rows, which have their own checksums.
func check(ctx context.Context, conn *sqlite.Conn) error {
	conn.SetInterrupt(ctx.Done())
	defer conn.SetInterrupt(nil)
	var found string
	err := pragma(conn, "quick_check(1)", func(st *sqlite.Stmt) { found = st.ColumnText(0) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return mapError(err)
	}
	if found != "ok" {
		return fmt.Errorf("%w: %s", store.ErrCorrupt, found)
	}
	return nil
}

// Unchecked reports that the last end was not clean and that the file was too large to check at start. The caller then runs Check in the
// background.
func (s *Store) Unchecked() bool { return s.unchecked }

// Check checks the structure of the whole database and returns ErrCorrupt when it is damaged. It may take long, and the write-ahead log
// grows meanwhile.
func (s *Store) Check(ctx context.Context) error {
	return s.read(ctx, func(conn *sqlite.Conn) error { return check(ctx, conn) })
}
