package main

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/plugins/audit"
)

// forger has the whole store and knows how it is made, checksums included.
type forger struct {
	t    *testing.T
	conn *sqlite.Conn
}

type auditRow struct {
	position, created int64
	key, callID       string
	bytes             []byte
}

func (f *forger) rows() (rows []auditRow) {
	f.t.Helper()
	must(f.t, sqlitex.Execute(f.conn, "SELECT position, created, key, call_id, bytes FROM records WHERE kind = 'audit' AND namespace = 'default' ORDER BY position", &sqlitex.ExecOptions{
		ResultFunc: func(st *sqlite.Stmt) error {
			r := auditRow{st.ColumnInt64(0), st.ColumnInt64(1), st.ColumnText(2), st.ColumnText(3), make([]byte, st.ColumnLen(4))}
			st.ColumnBytes(4, r.bytes)
			rows = append(rows, r)
			return nil
		},
	}))
	return rows
}

func (f *forger) put(r auditRow) {
	f.t.Helper()
	var words []byte
	for _, w := range []string{"default", "audit", r.key, r.callID} {
		words = append(binary.BigEndian.AppendUint32(words, uint32(len(w))), w...)
	}
	crc := crc32.Update(crc32.Checksum(words, crc32.MakeTable(crc32.Castagnoli)), crc32.MakeTable(crc32.Castagnoli), r.bytes)
	must(f.t, sqlitex.Execute(f.conn, "UPDATE records SET bytes = ?, crc = ? WHERE position = ?", &sqlitex.ExecOptions{Args: []any{r.bytes, int64(crc), r.position}}))
}

// lie is what somebody would like to have been.
func lie(r auditRow) auditRow {
	r.bytes = append(slices.Clip(r.bytes[:call.LinkSize]), strings.ReplaceAll(string(r.bytes[call.LinkSize:]), "RESUME", "CANCEL")...)
	return r
}

// forgeries are what toold audit verify has to find, on the store of a daemon that runs.
var forgeries = []struct {
	name, want string
	do         func(f *forger)
}{
	{"changed row", "CHANGED", func(f *forger) {
		rows := f.rows()
		i := slices.IndexFunc(rows, func(r auditRow) bool { return strings.Contains(string(r.bytes), "RESUME") })
		f.put(lie(rows[i]))
	}},
	{"row taken out", "CHANGED", func(f *forger) {
		must(f.t, sqlitex.Execute(f.conn, "DELETE FROM records WHERE position = ?", &sqlitex.ExecOptions{Args: []any{f.rows()[3].position}}))
	}},
	{"removed tail", "MISSING_TAIL", func(f *forger) {
		rows := f.rows()
		must(f.t, sqlitex.Execute(f.conn, "DELETE FROM records WHERE kind = 'audit' AND position >= ?", &sqlitex.ExecOptions{Args: []any{rows[len(rows)-4].position}}))
	}},
	{"removed beginning", "MISSING_HEAD", func(f *forger) {
		must(f.t, sqlitex.Execute(f.conn, "DELETE FROM records WHERE kind = 'audit' AND position <= ?", &sqlitex.ExecOptions{Args: []any{f.rows()[2].position}}))
	}},
	{"rewritten chain", "REWRITTEN", func(f *forger) {
		var before []byte
		for _, r := range f.rows() {
			r = lie(r)
			before = call.Link(before, "default", r.key, r.callID, time.Unix(0, r.created), r.bytes[call.LinkSize:])
			r.bytes = append(slices.Clip(before), r.bytes[call.LinkSize:]...)
			f.put(r)
		}
	}},
}

// A changed row, a row taken out, a removed tail or beginning, and a chain that was written anew are found; what is as it was
// is not.
func TestAuditFindsForgeries(t *testing.T) {
	p := newPluginSite(t, "audit: {enabled: true, every: 1s}\n")
	asking(t, p.p, "one")
	new(run).do(t, p.data, "answer", "store-tests-call-one", "blue").says(t, 0, "")
	for range 5 {
		if e := p.call("glob", `{"pattern":"*"}`).GetError(); e != nil {
			t.Fatal(e)
		}
	}
	p.p.stop()
	checkpoints := filepath.Join(p.data, "audit", "checkpoints.jsonl")
	key := strings.TrimSpace(new(run).do(t, p.data, "audit", "key", "--data", p.data).out)
	verify := []string{"audit", "verify", "--checkpoints", checkpoints, "--key", key}
	database := filepath.Join(p.data, "journal.db")
	whole, err := os.ReadFile(database)
	must(t, err)

	d := p.start("--config", p.file)
	new(run).do(t, p.data, verify...).says(t, 0, "records of default", "checkpoints")
	wrong := strings.Repeat("ab", 32)
	new(run).do(t, p.data, "audit", "verify", "--checkpoints", checkpoints, "--key", wrong).says(t, exitFailed, "SIGNATURE")
	export := new(run).do(t, p.data, "audit", "export").out
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	must(t, os.WriteFile(file, []byte(export), 0o600))
	new(run).do(t, p.data, "audit", "verify", file, "--checkpoints", checkpoints).says(t, 0, "records of default")
	none := filepath.Join(t.TempDir(), "none.jsonl")
	must(t, os.WriteFile(none, nil, 0o600))
	new(run).do(t, p.data, "audit", "verify", file, "--checkpoints", none).says(t, 0, "no checkpoint of default")
	wantEntries(t, export)
	d.stop()

	for _, forgery := range forgeries {
		must(t, os.WriteFile(database, whole, 0o600))
		for _, suffix := range []string{"-wal", "-shm"} {
			_ = os.Remove(database + suffix)
		}
		conn, err := sqlite.OpenConn(database, sqlite.OpenReadWrite)
		must(t, err)
		forgery.do(&forger{t, conn})
		must(t, conn.Close())
		signed, err := os.ReadFile(checkpoints) // as it was copied elsewhere: the daemon goes on signing what it finds
		must(t, err)
		elsewhere := filepath.Join(t.TempDir(), "checkpoints.jsonl")
		must(t, os.WriteFile(elsewhere, signed, 0o600))
		d := p.start("--config", p.file)
		got := new(run).do(t, p.data, "audit", "verify", "--checkpoints", elsewhere, "--key", key)
		if got.code != exitFailed || !strings.Contains(got.out, forgery.want) {
			t.Errorf("%s: exit %d, want %s in\n%s%s", forgery.name, got.code, forgery.want, got.out, got.err)
		}
		d.stop()
		must(t, os.WriteFile(checkpoints, signed, 0o600))
	}
}

// wantEntries looks at what was kept of the calls of the test.
func wantEntries(t *testing.T, export string) {
	t.Helper()
	told := map[string]int{}
	d := json.NewDecoder(strings.NewReader(export))
	for d.More() {
		var l audit.Line
		must(t, d.Decode(&l))
		var e audit.Entry
		must(t, json.Unmarshal(l.Record, &e))
		told[string(e.Event)]++
		if strings.Contains(string(l.Record), "blue") || strings.Contains(string(l.Record), "colour") {
			t.Errorf("a record tells what was said: %s", l.Record)
		}
		if e.Event == call.EventResumed && (e.By.Subject == "" || e.Decision == "" || e.Digest == "") {
			t.Errorf("who decided what: %s", l.Record)
		}
	}
	if told["accepted"] != 6 || told["finished"] != 6 || told["suspended"] != 1 || told["resumed"] != 1 {
		t.Errorf("records %v", told)
	}
}
