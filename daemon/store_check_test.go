package daemon

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toold-dev/toold/cli"
)

// wrong is a journal whose state the command must recognise.
type wrong struct {
	name, state string
	code        int
	journal     func(t *testing.T, sound []byte) []byte
	want        string
}

// withVersion returns a copy of a journal with another schema version in its header.
func withVersion(version uint32) func(*testing.T, []byte) []byte {
	return func(_ *testing.T, sound []byte) []byte {
		b := append([]byte(nil), sound...)
		binary.BigEndian.PutUint32(b[60:], version)
		return b
	}
}

func released(t *testing.T, _ []byte) []byte {
	t.Helper()
	in, err := os.Open("../store/sqlite/testdata/0.1/journal.db.gz")
	must(t, err)
	defer in.Close()
	z, err := gzip.NewReader(in)
	must(t, err)
	b, err := io.ReadAll(z)
	must(t, err)
	return b
}

// "toold store check" says whether this version can open a store, and never changes the store.
func TestStoreCheck(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	asking(t, p, "one")
	pid := strconv.Itoa(p.cmd.Process.Pid)
	new(run).do(t, s.data, "store", "check", s.data).wants(t, cli.ExitBusy, "IN_USE: ", "process "+pid+" ", "schema ")
	p.kill() // the newest changes are in the write-ahead log only
	before := contents(t, s.data)
	unmerged, err := os.ReadFile(filepath.Join(s.data, "journal.db"))
	must(t, err)
	log, err := os.ReadFile(filepath.Join(s.data, "journal.db-wal"))
	must(t, err)
	new(run).do(t, s.data, "store", "check", s.data).wants(t, 0, "READY: schema ")
	if after := contents(t, s.data); after != before {
		t.Errorf("the store was changed:\n%s\n%s", before, after)
	}
	s.start().stop()
	sound, err := os.ReadFile(filepath.Join(s.data, "journal.db"))
	must(t, err)
	for _, tt := range []wrong{
		{"of an older release", "MIGRATES", 0, released, "from schema 6 to "},
		{"of a newer release", "NEWER", cli.ExitConflict, withVersion(99), "version 99; this toold knows versions up to "},
		{"a damaged version", "DAMAGED", cli.ExitFailed, withVersion(0), "user_version 0"},
		{"a damaged page", "DAMAGED", cli.ExitFailed, func(_ *testing.T, b []byte) []byte {
			return append(append(append([]byte(nil), b[:8192]...), make([]byte, 8192)...), b[16384:]...)
		}, "toold salvage"},
		{"cut off", "DAMAGED", cli.ExitFailed, func(_ *testing.T, b []byte) []byte { return b[:100] }, "toold salvage"},
		{"text", "FOREIGN", cli.ExitFailed, func(*testing.T, []byte) []byte { return []byte(strings.Repeat("no database ", 99)) }, "not a journal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "journal.db")
			must(t, os.WriteFile(path, tt.journal(t, sound), 0o600))
			before := contents(t, dir)
			new(run).do(t, dir, "store", "check", dir).wants(t, tt.code, tt.state+": ", tt.want)
			r := new(run).do(t, dir, "store", "check", dir, "-o", "json")
			var got storeCheck
			if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != tt.code || got.State != tt.state || got.Opens != (tt.code == 0) || got.Latest == 0 {
				t.Errorf("exit code %d: %s, %v", r.code, r.out, err)
			}
			if after := contents(t, dir); after != before {
				t.Errorf("the store was changed:\n%s\n%s", before, after)
			}
		})
	}
	linked := t.TempDir() // the newest changes are in the write-ahead log beside the target of the link
	must(t, os.WriteFile(filepath.Join(linked, "target-wal"), log, 0o600))
	must(t, os.WriteFile(filepath.Join(linked, "target"), unmerged, 0o600))
	must(t, os.Symlink("target", filepath.Join(linked, "journal.db")))
	new(run).do(t, linked, "store", "check", linked).wants(t, 0, "READY: ", "schema ")
	pipe := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(pipe, "journal.db"), 0o600))
	new(run).do(t, pipe, "store", "check", pipe).wants(t, cli.ExitFailed, "FOREIGN: ", "no regular file")
	nothing := filepath.Join(t.TempDir(), "nothing")
	new(run).do(t, nothing, "store", "check", nothing).wants(t, cli.ExitNotFound, "MISSING: ", "no file journal.db")
	if _, err := os.Stat(nothing); !os.IsNotExist(err) {
		t.Errorf("the command created %s: %v", nothing, err)
	}
	new(run).do(t, nothing, "store", "check").wants(t, cli.ExitUsage, "STORE")
	new(run).do(t, nothing, "store", "check", "http://db").wants(t, cli.ExitUsage, "postgres://")
}

// contents lists the files of a store and what is in them, without the lock and the socket.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "lock" {
			return err
		}
		b, err := os.ReadFile(path)
		list.WriteString(path + " " + strconv.Itoa(len(b)) + " " + fmt.Sprintf("%x", sha256.Sum256(b)) + "\n")
		return err
	}))
	return list.String()
}
