package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite/faultfs"
)

// next returns the schema of a future release: the current files and one more step that writes a lot.
func next(t *testing.T) fs.FS {
	t.Helper()
	all := fstest.MapFS{"schema/9999_next.sql": {Data: []byte(`ALTER TABLE calls ADD COLUMN again TEXT;
		UPDATE calls SET again = call_id || hex(randomblob(500));
		CREATE TABLE copies (id INTEGER PRIMARY KEY, record BLOB) STRICT;
		INSERT INTO copies SELECT position, record FROM calls;
		CREATE INDEX calls_again ON calls (again);`)}}
	names, err := fs.Glob(schema, "schema/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(schema, name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = &fstest.MapFile{Data: b}
	}
	return all
}

// TestMigrationCut (T91) stops the process or the machine at any write of a migration. Afterwards the migration must be stored completely
// or not at all, and the next start must continue. The test is inside the package because it invokes migrate with the schema of a future
// release.
func TestMigrationCut(t *testing.T) {
	const calls = 120
	dir := filepath.Join(t.TempDir(), "data")
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for n := range calls {
		if err := s.Commit(t.Context(), creation(newCall(fmt.Sprint("c", n)), store.Normal)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	disk, err := faultfs.New(faultfs.Config{Dir: dir, Record: true, SkipSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	conn, err := openConn(filepath.Join(dir, "journal.db"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	later := next(t)
	if err := migrate(conn, later); err != nil {
		t.Fatal(err)
	}
	base, log := disk.Log()
	power, rng := faultfs.NewPower(base), rand.New(rand.NewPCG(1, 1))
	every, opened, migrated := 4, 0, 0
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		every = 1
	}
	for n := 0; n <= len(log); n++ {
		for fate := range 3 { // three cases: killed; power lost; power lost with half of the unsynced operations kept
			if (n+fate)%every > 0 && n < len(log) {
				continue
			}
			files := power.Cut(func(faultfs.Op) faultfs.Survival {
				return faultfs.Survival{Lost: fate == 1 || fate == 2 && rng.IntN(2) == 0}
			})
			at := filepath.Join(t.TempDir(), "data")
			if err := files.WriteTo(at); err != nil {
				t.Fatal(err)
			}
			opened++
			if resume(t, fmt.Sprintf("after %d of %d operations, fate %d", n, len(log), fate), at, later, calls) {
				migrated++
			}
		}
		if n < len(log) {
			power.Do(log[n])
		}
	}
	if migrated == 0 || migrated == opened {
		t.Errorf("%d of %d were migrated already", migrated, opened)
	}
	t.Logf("ran: migration: cut %d times in %d operations; %d were there already", opened, len(log), migrated)
}

// resume opens the files of an interrupted migration with the current and with the future schema. there reports whether the migration was
// stored.
func resume(t *testing.T, what, dir string, later fs.FS, calls int) (there bool) {
	t.Helper()
	disk, err := faultfs.New(faultfs.Config{Dir: dir, SkipSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	conn, err := openConn(filepath.Join(dir, "journal.db"), 0)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer conn.Close()
	count := func(text string) (n int) {
		err := query(conn, text, func(st *sqlite.Stmt) error {
			n = st.ColumnInt(0)
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return n
	}
	err = migrate(conn, schema)
	if there = errors.Is(err, ErrNewer); err != nil && !there {
		t.Fatalf("%s: the release before: %v", what, err)
	}
	if !there && count("SELECT count(*) FROM sqlite_schema WHERE name = 'copies'") > 0 {
		t.Errorf("%s: half of the migration is there", what)
	}
	if err := migrate(conn, later); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := check(t.Context(), conn); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if n := count("SELECT count(*) FROM calls JOIN copies ON id = position WHERE again LIKE call_id || '%'"); n != calls {
		t.Errorf("%s: %d calls of %d", what, n, calls)
	}
	return there
}
