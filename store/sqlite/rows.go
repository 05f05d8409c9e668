package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/rows"
)

// Rows reads the tables of a journal row by row, for a copy into another store. No daemon may have the journal open.
type Rows struct {
	files *files
	conn  *sqlite.Conn
}

// OpenRows locks the journal in dir and migrates it to the latest schema. The caller closes it.
func OpenRows(dir string) (_ *Rows, err error) {
	if _, err := os.Stat(filepath.Join(dir, "journal.db")); err != nil {
		return nil, err
	}
	f, err := openFiles(dir)
	if err != nil {
		return nil, err
	}
	r := &Rows{files: f}
	if r.conn, err = openConn(f.database, 0); err == nil {
		err = migrate(r.conn, schema)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close closes the journal and releases its lock.
func (r *Rows) Close() (err error) {
	if r.conn != nil {
		err = r.conn.Close()
	}
	return errors.Join(err, r.files.close())
}

// Table returns the rows of a table with these columns. Values are integers, strings, bytes and nil. The table calls includes the calls in
// packs.
func (r *Rows) Table(ctx context.Context, name string, columns []string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		r.conn.SetInterrupt(ctx.Done())
		defer r.conn.SetInterrupt(nil)
		chosen := strings.Join(columns, ", ")
		if name == "calls" { // For a call that was created in its final state, ended is NULL. Its end time is then in the column updated.
			chosen = strings.Replace(chosen, "ended", "CASE WHEN status IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN coalesce(ended, updated) END", 1)
		}
		err := query(r.conn, "SELECT "+chosen+" FROM "+name, func(st *sqlite.Stmt) error {
			if !yield(row(st, 0), nil) {
				return errStopped
			}
			return nil
		})
		if err == nil && name == "calls" {
			err = r.packed(columns, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, fmt.Errorf("%s: %w", name, mapError(err)))
		}
	}
}

var errStopped = errors.New("no more rows are wanted")

// packed yields the calls in packs.
func (r *Rows) packed(columns []string, yield func([]any, error) bool) error {
	return query(r.conn, selectPacks+"TRUE ORDER BY position", func(st *sqlite.Stmt) error {
		var p pack
		p.read(st)
		for at := p.position; at <= p.last; at++ {
			m, err := p.named(r.conn, at)
			if err != nil {
				return err
			}
			if !yield(m.columns(columns), nil) {
				return errStopped
			}
		}
		return nil
	})
}

// columns returns the column values of the row that this packed call would have.
func (m *packed) columns(names []string) []any {
	c := &call.Call{}
	if r := m.row(); r.Call != nil {
		c = r.Call
	}
	values := map[string]any{
		"position": m.position, "namespace": m.pack.namespace, "call_id": m.id, "status": string(call.Succeeded), "revision": int64(1),
		"last_sequence": m.eventsLast, "created": rows.Nanos(c.Created), "updated": m.pack.updated, "ended": m.pack.updated, "epoch": m.pack.epoch,
		"tool": c.Tool, "caller": c.Caller.Subject, "crc": int64(m.crc), "record": append([]byte{}, m.record...),
		"events_last": m.eventsLast, "events_crc": int64(m.eventsCRC), "events": append([]byte{}, m.events...),
	}
	for name, id := range map[string]string{"run_id": c.Run.ID, "thread_id": c.Run.Thread} {
		if id != "" {
			values[name] = id
		}
	}
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = values[name]
	}
	return out
}
