package daemon

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// forger is an attacker who can write to the whole store and compute its checksums. Its statements work on both kinds of store.
type forger struct {
	exec  func(text string, args ...any)
	rows  func() []auditRow
	close func()
}

type auditRow struct {
	position, created int64
	key, callID       string
	bytes             []byte
}

const selectAuditRows = "SELECT position, created, key, call_id, bytes FROM records WHERE kind = 'audit' AND namespace = 'default' ORDER BY position"

func forgeSQLite(t *testing.T, p *pluginSite) *forger {
	t.Helper()
	conn, err := sqlite.OpenConn(filepath.Join(p.data, "journal.db"), sqlite.OpenReadWrite)
	must(t, err)
	return &forger{
		exec: func(text string, args ...any) {
			t.Helper()
			must(t, sqlitex.Execute(conn, text, &sqlitex.ExecOptions{Args: args}))
		},
		rows: func() (rows []auditRow) {
			t.Helper()
			must(t, sqlitex.Execute(conn, selectAuditRows, &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
				r := auditRow{st.ColumnInt64(0), st.ColumnInt64(1), st.ColumnText(2), st.ColumnText(3), make([]byte, st.ColumnLen(4))}
				st.ColumnBytes(4, r.bytes)
				rows = append(rows, r)
				return nil
			}}))
			return rows
		},
		close: func() { must(t, conn.Close()) },
	}
}

func forgePostgres(url string) func(*testing.T, *pluginSite) *forger {
	return func(t *testing.T, _ *pluginSite) *forger {
		t.Helper()
		ctx := within(t)
		conn, err := pgx.Connect(ctx, url)
		must(t, err)
		return &forger{
			exec: func(text string, args ...any) {
				t.Helper()
				_, err := conn.Exec(ctx, text, args...)
				must(t, err)
			},
			rows: func() (rows []auditRow) {
				t.Helper()
				found, err := conn.Query(ctx, selectAuditRows)
				must(t, err)
				var r auditRow
				var key, callID []byte
				_, err = pgx.ForEachRow(found, []any{&r.position, &r.created, &key, &callID, &r.bytes}, func() error {
					rows = append(rows, auditRow{r.position, r.created, string(key), string(callID), append([]byte{}, r.bytes...)})
					return nil
				})
				must(t, err)
				return rows
			},
			close: func() { must(t, conn.Close(ctx)) },
		}
	}
}

// put overwrites a row.
func (f *forger) put(r auditRow) {
	f.exec("UPDATE records SET bytes = $1, crc = $2 WHERE position = $3", r.bytes, r.sum(), r.position)
}

func (r *auditRow) sum() int64 {
	var words []byte
	for _, w := range []string{"default", "audit", r.key, r.callID} {
		words = append(binary.BigEndian.AppendUint32(words, uint32(len(w))), w...)
	}
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	return int64(crc32.Update(crc32.Checksum(words, castagnoli), castagnoli, r.bytes))
}

// restore makes these rows the only ones of the chain.
func (f *forger) restore(rows []auditRow) {
	f.exec("DELETE FROM records WHERE kind = 'audit'")
	for _, r := range rows {
		f.exec("INSERT INTO records (position, namespace, kind, key, call_id, created, crc, bytes) VALUES ($1, 'default', 'audit', $2, $3, $4, $5, $6)",
			r.position, r.key, r.callID, r.created, r.sum(), r.bytes)
	}
}
