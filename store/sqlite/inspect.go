package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/dirlock"
)

// Inspect reports the schema version of the journal in dir, and checks without changing it whether Open would succeed. It also checks the
// structure of the whole database, which takes about a second for a gigabyte. It fails with [fs.ErrNotExist], [ErrForeign], [ErrNewer],
// [ErrLocked] or [store.ErrCorrupt]. The versions are also valid with ErrNewer and ErrLocked. With ErrLocked, Found is the version at the
// last checkpoint of the running daemon.
func Inspect(ctx context.Context, dir string) (v store.SchemaVersions, err error) {
	names, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		return v, err
	}
	v.Latest = len(names)
	path, err := filepath.EvalSymlinks(filepath.Join(dir, "journal.db")) // Follow links: the write-ahead log is beside the real file.
	if err != nil {
		return v, err
	}
	if info, err := os.Stat(path); err != nil {
		return v, err
	} else if !info.Mode().IsRegular() { // opening a named pipe would block
		return v, fmt.Errorf("%w: %s is no regular file", ErrForeign, path)
	}
	// Without a lock file no daemon has the journal open. Inspect must not create a lock file, because it may run as another user.
	lock := filepath.Join(dir, "lock")
	if _, err := os.Stat(lock); err == nil {
		held, err := dirlock.Take(lock)
		if errors.Is(err, ErrLocked) {
			return inspectHeld(path, v, err)
		}
		if err != nil {
			return v, err
		}
		defer held.Close()
	}
	if err := (&files{database: path}).refuseForeign(); err != nil {
		return v, err
	}
	conn, closeConn, err := openUnchanged(path)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, closeConn()) }()
	found, err := schemaVersion(conn, int64(v.Latest))
	if v.Found = int(found); err != nil {
		return v, err
	}
	return v, check(ctx, conn)
}

// openUnchanged opens a database for reading and leaves no files behind. A database without a write-ahead log is opened as immutable, because
// SQLite would create a log. With a log, SQLite creates a file for the log's index, which closeConn removes.
func openUnchanged(path string) (conn *sqlite.Conn, closeConn func() error, err error) {
	uri := "file:" + (&url.URL{Path: path}).EscapedPath()
	index := ""
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		uri += "?immutable=1"
	} else if _, err := os.Stat(path + "-shm"); errors.Is(err, fs.ErrNotExist) {
		index = path + "-shm"
	}
	if conn, err = sqlite.OpenConn(uri, sqlite.OpenReadOnly|sqlite.OpenURI); err != nil {
		return nil, nil, mapError(&failure{err})
	}
	return conn, func() error {
		err := conn.Close()
		if index != "" {
			_ = os.Remove(index) // Ignore the error, because the file may not exist. The next owner does not need it.
		}
		return err
	}, nil
}

// inspectHeld reads the version from the header of a database that a daemon has open. SQLite cannot open such a database.
func inspectHeld(path string, v store.SchemaVersions, held error) (store.SchemaVersions, error) {
	header, _, err := readHeader(path)
	if err != nil {
		return v, errors.Join(held, err)
	}
	v.Found = int(int32(binary.BigEndian.Uint32(header[60:]))) // SQLite stores user_version as a signed number.
	if v.Found > v.Latest {
		return v, fmt.Errorf("%w: version %d; this toold knows versions up to %d", ErrNewer, v.Found, v.Latest)
	}
	return v, held
}
