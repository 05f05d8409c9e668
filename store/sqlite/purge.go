package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/group"
	"github.com/toold-dev/toold/tool"
)

// Shred erases the remaining data of purged calls, runs and threads. Then it rewrites the files, so that no unreferenced byte remains.
func (s *Store) Shred(ctx context.Context, p store.Shredding) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.trimming.Lock() // No backup may run at the same time, because it would contain the old data.
	defer s.trimming.Unlock()
	calls := make(map[string]bool, len(p.Calls))
	for _, id := range p.Calls {
		calls[id] = true
	}
	if len(calls) > 0 {
		if err := s.DecisionsOf(ctx, p.Namespace, p.Calls, s.ShredDecisions); err != nil {
			return err
		}
		if err := s.shredRecords(ctx, p.Namespace, calls); err != nil {
			return err
		}
	}
	err := s.write(func(w *writer) error {
		if err := w.shredActions(p.Namespace, calls); err != nil {
			return err
		}
		return w.shredScopes(&p)
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := s.checkRebuildSpace(ctx); err != nil {
		return err
	}
	if err := s.Do(group.Op{Bare: true, Run: func(context.Context, *group.Plan) error { return s.writer.rebuild() }}); err != nil {
		return err
	}
	return syncFiles(s.cfg.Dir) // Make the removal of output files durable, too.
}

// checkRebuildSpace returns ErrFull when rewriting the files could fill the disk. During a rebuild, the used pages exist two more times: in the
// temporary file and in the write-ahead log.
func (s *Store) checkRebuildSpace(ctx context.Context) error {
	var pages, unused int64
	err := s.read(ctx, func(conn *sqlite.Conn) error {
		err := pragma(conn, "page_count", func(st *sqlite.Stmt) { pages = st.ColumnInt64(0) })
		return errors.Join(err, pragma(conn, "freelist_count", func(st *sqlite.Stmt) { unused = st.ColumnInt64(0) }))
	})
	if err != nil {
		return err
	}
	need := 2 * (pages - unused) * pageSize
	free, err := s.Free()
	if err == nil && free < need {
		err = fmt.Errorf("%w: rewriting the journal needs %d bytes; %d are free", store.ErrFull, need, free)
	}
	return err
}

// syncFiles syncs the whole file system of dir.
func syncFiles(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}

// shredPage is how many rows are read in one snapshot and written in one transaction.
const shredPage = 256

const selectRecordsAfter = "SELECT position, namespace, key, call_id, chained FROM records WHERE position > ? ORDER BY position LIMIT ?"

// shredRecords removes the records that plugins and late attempts stored for calls.
func (s *Store) shredRecords(ctx context.Context, namespace string, calls map[string]bool) error {
	after := int64(0)
	for n := shredPage; n == shredPage; {
		n = 0
		var found []int64
		err := s.read(ctx, func(conn *sqlite.Conn) error {
			return query(conn, selectRecordsAfter, func(st *sqlite.Stmt) error {
				n++
				after = st.ColumnInt64(0)
				if key, id := st.ColumnText(2), st.ColumnText(3); st.ColumnText(1) == namespace && !st.ColumnBool(4) && (calls[id] || id == "" && calls[key]) {
					found = append(found, after)
				}
				return nil
			}, after, shredPage)
		})
		if err == nil && len(found) > 0 {
			err = s.write(func(w *writer) error { return w.deleteRecords(found) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) deleteRecords(positions []int64) error {
	for _, p := range positions {
		if err := exec(w.conn, "DELETE FROM records WHERE position = ?", p); err != nil {
			return err
		}
	}
	return nil
}

// shredScopes removes the data of runs and threads.
func (w *writer) shredScopes(p *store.Shredding) error {
	for _, of := range []struct {
		scope tool.Scope
		ids   []string
	}{{tool.RunScope, p.Runs}, {tool.ThreadScope, p.Threads}} {
		for _, id := range of.ids {
			err := exec(w.conn, "DELETE FROM documents WHERE namespace = ? AND scope = ? AND scope_id = ?", p.Namespace, string(of.scope), id)
			if err == nil {
				err = exec(w.conn, "DELETE FROM policies WHERE namespace = ? AND scope = ? AND scope_id = ? AND kind = ?", p.Namespace, string(of.scope), id, p.PolicyKind)
			}
			if err == nil && of.scope == tool.RunScope {
				err = exec(w.conn, "UPDATE runs SET reason = '' WHERE namespace = ? AND id = ?", p.Namespace, id)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// rebuild rewrites every page and empties the write-ahead log. Afterwards no old data remains in free pages, in unused parts of pages, or
// in the log. The temporary file of the rebuild has no name and is in the directory of the journal.
func (w *writer) rebuild() error {
	if !w.begun.Load() {
		return store.ErrFull
	}
	if err := w.point("rebuild"); err != nil {
		return err
	}
	dir := strings.ReplaceAll(w.s.cfg.Dir, "'", "''")
	for _, p := range []string{"temp_store_directory = '" + dir + "'", "temp_store = FILE"} {
		if err := pragma(w.conn, p, nil); err != nil {
			return err
		}
	}
	err := w.statement("VACUUM")
	if err == nil {
		err = w.point("rebuilt")
	}
	err = errors.Join(err, pragma(w.conn, "temp_store = MEMORY", nil))
	if err == nil || errors.Is(mapError(err), store.ErrFull) { // Truncate the log even after a failure because of a full disk: the failed rebuild has left data in the log.
		err = errors.Join(err, w.truncate())
	}
	return err
}

// truncate copies the whole write-ahead log into the database and empties the log.
func (w *writer) truncate() error {
	busy := true
	for until := time.Now().Add(truncateTime); busy && time.Now().Before(until); {
		err := pragma(w.conn, "wal_checkpoint(TRUNCATE)", func(st *sqlite.Stmt) { busy = st.ColumnBool(0) })
		if err != nil {
			return err
		}
	}
	if busy {
		return fmt.Errorf("the write-ahead log was in use for %v: purge again", truncateTime)
	}
	w.written = 0
	return nil
}

// truncateTime is how long truncate waits for readers. It is long enough, because each reader uses the write-ahead log only briefly.
const truncateTime = 20 * time.Second

// statement runs a statement without caching it.
func (w *writer) statement(text string) (err error) {
	st, _, err := w.conn.PrepareTransient(text)
	if err != nil {
		return &failure{err}
	}
	defer func() {
		if closed := st.Finalize(); err == nil && closed != nil {
			err = &failure{closed}
		}
	}()
	return run(st)
}
