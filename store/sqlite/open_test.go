package sqlite_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
)

// script runs SQL on a journal that is not open.
func script(t *testing.T, dir, text string) {
	t.Helper()
	conn, err := zombie.OpenConn(filepath.Join(dir, "journal.db"), zombie.OpenReadWrite|zombie.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteScript(conn, text, nil); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func closeStore(t *testing.T, s *sqlite.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
}

func TestOneOwner(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if !errors.Is(err, sqlite.ErrLocked) || !strings.Contains(fmt.Sprint(err), fmt.Sprint("process ", os.Getpid(), " ")) {
		t.Fatalf("second Open = %v, want ErrLocked with the holder's pid", err)
	}
	closeStore(t, s)
	closeStore(t, open(t, sqlite.Config{Dir: dir}))
}

func TestRefusesOtherFiles(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string)
		want error
	}{
		{"newer schema", func(t *testing.T, dir string) {
			closeStore(t, open(t, sqlite.Config{Dir: dir}))
			script(t, dir, "PRAGMA user_version = 99")
		}, sqlite.ErrNewer},
		{"text", func(t *testing.T, dir string) {
			text := strings.Repeat("not a database ", 100)
			if err := os.WriteFile(filepath.Join(dir, "journal.db"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}, sqlite.ErrForeign},
		{"another application", func(t *testing.T, dir string) { script(t, dir, "PRAGMA application_id = 7; CREATE TABLE t (x);") }, sqlite.ErrForeign},
		{"nobody's database", func(t *testing.T, dir string) { script(t, dir, "PRAGMA user_version = 1; CREATE TABLE t (x);") }, sqlite.ErrForeign},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			tt.make(t, dir)
			before, err := os.ReadFile(filepath.Join(dir, "journal.db"))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // The second round shows that Open does not keep a refused file locked.
				if s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); !errors.Is(err, tt.want) {
					t.Errorf("Open = %v, %v, want %v", s, err, tt.want)
				}
			}
			after, err := os.ReadFile(filepath.Join(dir, "journal.db"))
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == sqlite.ErrForeign && tt.name == "text" && string(before) != string(after) {
				t.Error("the foreign file was written to")
			}
		})
	}
}

func TestMoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Fatal(err)
	}
	id := s.Identity()
	closeStore(t, s)
	restore := func() string { // A restored backup is a different file, so the store counts as moved.
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		to := t.TempDir()
		if err := os.WriteFile(filepath.Join(to, "journal.db"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		return to
	}
	copied := restore()
	for range 2 { // The store counts as moved until an operator acknowledges it.
		s = open(t, sqlite.Config{Dir: copied})
		if got := s.Identity(); !got.Moved || got.StoreID != id.StoreID || got.Epoch <= id.Epoch {
			t.Errorf("Identity of a copy = %+v, original %+v", got, id)
		}
		if _, err := s.Call(t.Context(), key("a")); err != nil {
			t.Errorf("Call = %v", err)
		}
		closeStore(t, s)
	}
	s = open(t, sqlite.Config{Dir: copied})
	if err := s.Acknowledge(); err != nil || s.Identity().Moved {
		t.Errorf("Acknowledge = %v, %+v", err, s.Identity())
	}
	closeStore(t, s)
	if s = open(t, sqlite.Config{Dir: copied}); s.Identity().Moved {
		t.Error("moved again after Acknowledge")
	}
	closeStore(t, s)
	moved := restore()
	for _, cfg := range []sqlite.Config{{Dir: moved, Moved: true}, {Dir: moved}} {
		if s = open(t, cfg); s.Identity().Moved {
			t.Errorf("Open(Moved: %t): still moved", cfg.Moved)
		}
		closeStore(t, s)
	}
}

// TestCheckAfterUncleanEnd checks that Open, after an unclean end, checks a small database and reports a large one as unchecked.
func TestCheckAfterUncleanEnd(t *testing.T) {
	dir := t.TempDir()
	unclean := func(s *sqlite.Store) {
		if err := s.Close(); err == nil {
			t.Fatal("closed in order")
		}
	}
	dirty := sqlite.Config{Dir: dir, FailPoint: func(point string) error {
		if point == "close" {
			return errors.New("killed")
		}
		return nil
	}}
	s := open(t, dirty)
	for i := range 300 {
		if err := s.Commit(t.Context(), creation(newCall(fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
	}
	unclean(s)
	dirty.CheckBytes = 1
	s = open(t, dirty)
	if s.Identity().Clean || !s.Unchecked() {
		t.Errorf("clean %t, unchecked %t, want false and true", s.Identity().Clean, s.Unchecked())
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("Check = %v", err)
	}
	unclean(s)

	scribble(t, filepath.Join(dir, "journal.db"))
	if s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("Open of a damaged database = %v, %v, want ErrCorrupt", s, err)
	}
	// An operator who wants to salvage a damaged journal can still open it without a check.
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, CheckBytes: 1})
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("Check = %v, want ErrCorrupt", err)
	}
}

// scribble damages the structure of a page in the index of calls.
func scribble(t *testing.T, path string) {
	t.Helper()
	conn, err := zombie.OpenConn(path, zombie.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	var page, size int64
	err = sqlitex.ExecuteTransient(conn, "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'calls_status'", &sqlitex.ExecOptions{ResultFunc: func(st *zombie.Stmt) error {
		page, size = st.ColumnInt64(0), st.ColumnInt64(1)
		return nil
	}})
	if err == nil {
		err = sqlitex.ExecuteTransient(conn, "PRAGMA wal_checkpoint(TRUNCATE)", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0xff, 0xff, 0xff, 0xff}, (page-1)*size+8); err != nil {
		t.Fatal(err)
	}
}

func TestSweepSpool(t *testing.T) {
	s := open(t, sqlite.Config{Dir: t.TempDir()})
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "orphan"} {
		if _, err := s.Spool().Append(key(id), "", "out", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.SweepSpool(t.Context()); err != nil || n != 1 {
		t.Errorf("SweepSpool = %d, %v, want 1", n, err)
	}
	if _, err := s.Spool().Size(key("a"), "out"); err != nil {
		t.Errorf("output of a known call: %v", err)
	}
}

// TestOpenFails checks that Open fails for a directory that it cannot use, and that Open keeps no lock after the failure.
func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Dir: file}); err == nil {
		t.Error("Open in a file succeeded")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "spool"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); err == nil {
		t.Error("Open with a file instead of the spool succeeded")
	}
	if err := os.Remove(filepath.Join(dir, "spool")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	open(t, sqlite.Config{Dir: dir})
}
