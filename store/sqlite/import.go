package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store/rows"
)

// Import copies another store into a new store in dir. It reads the written rows back and compares them. The new store gets its final name
// only after that, so a failure or a kill leaves no store. Positions, sequences and the id of the store stay the same. A daemon that starts
// on the copy begins a new epoch, and runs no unfinished call until an operator releases it. This epoch is higher than any epoch that the
// other store can reach.
func Import(ctx context.Context, dir string, from rows.Tables) (done []rows.Imported, err error) {
	f, err := lockFiles(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if _, err := os.Stat(f.database); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, fmt.Errorf("%s %w", dir, rows.ErrHasStore))
	}
	made := *f
	made.database += ".copy"
	if err := made.remove(); err != nil { // Remove the files of an import that was killed.
		return nil, err
	}
	if done, err = made.fill(ctx, from); err == nil {
		err = os.Rename(made.database, f.database)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, errors.Join(err, made.remove()))
	}
	return done, nil
}

// fill makes the database from the tables, and closes it.
func (f *files) fill(ctx context.Context, from rows.Tables) (done []rows.Imported, err error) {
	if err := f.prepare(); err != nil {
		return nil, err
	}
	w, err := newJournal(f.database)
	if err == nil {
		done, err = w.importAll(ctx, from)
	}
	if w != nil {
		err = errors.Join(err, w.conn.Close())
	}
	return done, err
}

// remove deletes the database and the files that SQLite keeps beside it.
func (f *files) remove() (err error) {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if removeErr := os.Remove(f.database + suffix); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

// imported lists the tables to copy. It leaves out the tables that are derived from them.
func imported() []string {
	return []string{"actions", "batches", "calls", "decisions", "documents", "events", "policies", "records", "runs", "suspensions", "tombstones"}
}

func (w *writer) importAll(ctx context.Context, from rows.Tables) (done []rows.Imported, err error) {
	if err := exec(w.conn, "BEGIN IMMEDIATE"); err != nil {
		return nil, mapError(err)
	}
	for _, name := range imported() {
		n, err := w.importTable(ctx, name, from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, mapError(err))
		}
		done = append(done, rows.Imported{Table: name, Rows: n})
	}
	for _, step := range []func() error{
		w.addAllMembers, func() error { return w.importMeta(ctx, from) }, func() error { return exec(w.conn, "COMMIT") },
		func() error { return pragma(w.conn, "wal_checkpoint(TRUNCATE)", nil) }, func() error { return check(ctx, w.conn) },
	} {
		if err := step(); err != nil {
			return nil, mapError(err)
		}
	}
	return done, nil
}

// importTable copies a table, reads the stored rows back and compares them with the copied rows.
func (w *writer) importTable(ctx context.Context, name string, from rows.Tables) (n int64, err error) {
	var columns []string
	var text []bool
	err = pragma(w.conn, "table_info("+name+")", func(st *sqlite.Stmt) {
		columns, text = append(columns, st.ColumnText(1)), append(text, st.ColumnText(2) == "TEXT")
	})
	if err != nil {
		return 0, err
	}
	list := strings.Join(columns, ", ")
	insert := "INSERT INTO " + name + " (" + list + ") VALUES (?" + strings.Repeat(", ?", len(columns)-1) + ")"
	written, read := rows.NewFingerprints()
	for values, err := range from.Table(ctx, name, columns) {
		if err == nil {
			err = stored(values, text)
		}
		if err == nil {
			written.Add(values)
			err = exec(w.conn, insert, values...)
		}
		if err != nil {
			return 0, err
		}
	}
	err = query(w.conn, "SELECT "+list+" FROM "+name, func(st *sqlite.Stmt) error {
		read.Add(row(st, 0))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return written.Compare(read)
}

// stored converts values in place to the types of the columns.
func stored(values []any, text []bool) error {
	for i, v := range values {
		switch v := v.(type) {
		case nil, int64:
		case bool:
			values[i] = int64(0)
			if v {
				values[i] = int64(1)
			}
		case []byte:
			if text[i] {
				values[i] = string(v)
			}
		case string:
			if !text[i] {
				values[i] = []byte(v)
			}
		default:
			return fmt.Errorf("a value of the type %T", v)
		}
	}
	return nil
}

// addAllMembers adds the memberships of all calls. It reads them from columns and not from records, so it also covers calls with a broken
// record.
func (w *writer) addAllMembers() error {
	err := query(w.conn, "SELECT position, namespace, caller, run_id, thread_id FROM calls ORDER BY position", func(st *sqlite.Stmt) error {
		position, namespace := st.ColumnInt64(0), st.ColumnText(1)
		if block := position / blockSize; block != w.block {
			if err := w.writeMembers(); err != nil {
				return err
			}
			w.block = block
		}
		w.addMember(member{namespace, inNamespace, ""}, position)
		w.addMember(member{namespace, ofCaller, st.ColumnText(2)}, position)
		for i, kind := range []string{inRun, inThread} {
			if id := st.ColumnText(3 + i); id != "" {
				w.addMember(member{namespace, kind, id}, position)
			}
		}
		return nil
	})
	if err == nil {
		err = w.writeMembers()
	}
	return err
}

// importMeta gives the new store the identity of the store that it was copied from, and marks the new store as moved. A daemon that starts
// on it then runs no unfinished call until an operator releases it.
func (w *writer) importMeta(ctx context.Context, from rows.Tables) error {
	id, err := rows.Identity(ctx, from)
	if err == nil {
		err = exec(w.conn, "INSERT INTO meta (id, store_id, epoch, clock, position, file, clean) VALUES (1, ?, ?, ?, ?, 'copied', 0)", id...)
	}
	return err
}
