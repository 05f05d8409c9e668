package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
)

// ErrOccupied means that the destination of a copy exists and is not empty.
var ErrOccupied = errors.New("exists already and is not empty")

// Backup copies the journal and the output of its calls into the directory dest, which it creates. The copy has the state of the journal at
// one moment. It counts as moved: a daemon that starts on it runs no unfinished call until an operator releases it. When Backup returns
// nil, the whole copy is on the disk. After an error there is no copy.
func (s *Store) Backup(ctx context.Context, dest string) (*call.Backup, error) {
	s.trimming.Lock() // During the copy, no trim may remove output of calls that are in the copied journal.
	defer s.trimming.Unlock()
	if err := s.Refusal(); err != nil {
		return nil, err
	}
	conn, err := sqlite.OpenConn(owned(s.files.database), sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	copied, err := backup(ctx, conn, s.cfg.Dir, dest, s.Now().Time())
	return copied, errors.Join(err, conn.Close())
}

// Backup does what [Store.Backup] does, for the journal in dir. No daemon may have this journal open.
func Backup(ctx context.Context, dir, dest string) (_ *call.Backup, err error) {
	path := filepath.Join(dir, "journal.db")
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	f, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	conn, err := sqlite.OpenConn(owned(path), sqlite.OpenReadWrite|sqlite.OpenURI) // Open for writing, because SQLite may have to recover a write-ahead log.
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return backup(ctx, conn, dir, dest, time.Now())
}

func backup(ctx context.Context, conn *sqlite.Conn, dir, dest string, now time.Time) (*call.Backup, error) {
	conn.SetInterrupt(ctx.Done())
	conn.SetBusyTimeout(10 * time.Second)
	return stage(dest, func(staged string) (*call.Backup, error) {
		path := filepath.Join(staged, "journal.db")
		if err := exec(conn, "VACUUM INTO ?", path); err != nil {
			return nil, mapError(err)
		}
		return complete(ctx, path, filepath.Join(dir, "spool"), "backup", now)
	})
}

// Restore makes a store from a backup in the directory dest. A daemon that starts on it begins a new epoch, and runs no unfinished call
// until an operator releases it. The backup does not change. Restore leaves out the policies whose kind is in without.
func Restore(ctx context.Context, src, dest string, without ...string) (*call.Backup, error) {
	from := filepath.Join(src, "journal.db")
	if info, err := os.Stat(from + "-wal"); err == nil && info.Size() > 0 {
		return nil, fmt.Errorf("%s is not a backup but a store that is in use or was not closed: \"toold backup\" makes a backup", src)
	}
	return stage(dest, func(staged string) (*call.Backup, error) {
		path := filepath.Join(staged, "journal.db")
		if _, err := copySynced(from, path); err != nil {
			return nil, err
		}
		return complete(ctx, path, filepath.Join(src, "spool"), "restored", time.Now(), without...)
	})
}

// stage fills a temporary directory beside dest, syncs it and renames it to dest.
func stage(dest string, fill func(staged string) (*call.Backup, error)) (_ *call.Backup, err error) {
	if dest, err = filepath.Abs(dest); err != nil {
		return nil, err
	}
	switch entries, err := os.ReadDir(dest); {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s %w", dest, ErrOccupied)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	parent := filepath.Dir(dest)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, err
	}
	staged, err := os.MkdirTemp(parent, "."+filepath.Base(dest)+".unfinished-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(staged))
		}
	}()
	copied, err := fill(staged)
	if err == nil {
		err = syncDir(staged)
	}
	if err == nil {
		err = os.Rename(staged, dest) // The rename succeeds only when dest is missing or an empty directory.
	}
	if err != nil {
		return nil, err
	}
	return copied, syncDir(parent)
}

// complete checks a copied journal, marks it as a copy, removes the policies of some kinds, and copies the output of its calls.
func complete(ctx context.Context, path, spool, mark string, now time.Time, without ...string) (_ *call.Backup, err error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	copied := &call.Backup{}
	if err := markCopy(ctx, conn, mark, now, copied); err != nil {
		return nil, mapError(err)
	}
	for _, kind := range without {
		if err := exec(conn, "DELETE FROM policies WHERE kind = ?", kind); err != nil {
			return nil, mapError(err)
		}
	}
	if err := copySpool(ctx, conn, spool, filepath.Join(filepath.Dir(path), "spool"), copied); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	copied.Bytes += info.Size()
	return copied, syncDir(path)
}

// markCopy marks the journal as moved. Events of the copy must never have the same epoch as events of the original or of another copy. The
// epochs of the copy therefore start at the current Unix time in seconds. No store has reached that number, because daemons start less than
// once a second on average.
func markCopy(ctx context.Context, conn *sqlite.Conn, mark string, now time.Time, copied *call.Backup) error {
	var id int64
	if err := pragma(conn, "application_id", func(st *sqlite.Stmt) { id = st.ColumnInt64(0) }); err != nil {
		return err
	}
	if id != applicationID {
		return fmt.Errorf("%w: application id %#x", ErrForeign, id)
	}
	if err := check(ctx, conn); err != nil {
		return err
	}
	if err := exec(conn, "UPDATE meta SET file = ?, clean = 0, epoch = max(epoch, ?)", mark, now.Unix()); err != nil {
		return err
	}
	return query(conn, "SELECT (SELECT count(*) FROM calls) + (SELECT count(*) FROM packed)", func(st *sqlite.Stmt) error {
		copied.Calls = st.ColumnInt64(0)
		return nil
	})
}

// copySpool copies the output of the calls in a journal. It copies all output that the journal refers to, because output is written to its
// file before the journal refers to it. The copy may also contain later output.
func copySpool(ctx context.Context, conn *sqlite.Conn, from, to string, copied *call.Backup) error {
	calls, err := fs.Glob(os.DirFS(from), "[0-9a-f][0-9a-f]/*")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	made := map[string]bool{to: true}
	for _, name := range calls {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir := filepath.Join(from, name)
		if known, err := ownerIn(conn, dir); err != nil || !known {
			if err != nil {
				return err
			}
			continue
		}
		fan := filepath.Join(to, filepath.Base(filepath.Dir(dir)))
		target := filepath.Join(fan, filepath.Base(dir))
		if err := os.MkdirAll(target, 0o700); err != nil {
			return err
		}
		made[fan], made[target] = true, true
		if err := copyFiles(dir, target, copied); err != nil {
			return err
		}
	}
	for dir := range made {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// ownerIn reports whether a directory of the spool belongs to a call in the journal.
func ownerIn(conn *sqlite.Conn, dir string) (found bool, err error) {
	var key call.Key
	b, err := os.ReadFile(filepath.Join(dir, "call"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // The directory was not completed.
	case err != nil:
		return false, err
	}
	if json.Unmarshal(b, &key) != nil {
		return false, nil //nolint:nilerr // a name that was cut off names no call
	}
	err = query(conn, selectKnown, func(*sqlite.Stmt) error {
		found = true
		return nil
	}, key.Namespace, key.ID)
	return found, mapError(err)
}

func copyFiles(from, to string, copied *call.Backup) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		n, err := copySynced(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
		if err != nil {
			return err
		}
		copied.Bytes += n
		if e.Name() != "call" {
			copied.Files++
		}
	}
	return nil
}

// copySynced copies a file as far as it is written now, and syncs the copy.
func copySynced(from, to string) (n int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return 0, err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if n, err = io.Copy(out, io.LimitReader(in, info.Size())); err != nil {
		return n, err
	}
	return n, out.Sync()
}

// syncDir syncs the entries of a directory, or the bytes of a file.
func syncDir(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}
