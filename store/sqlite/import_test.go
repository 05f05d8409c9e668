package sqlite_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/store/rows"
	"github.com/toold-dev/toold/store/sqlite"
)

// during is a store that calls its function see before it returns each row.
type during struct {
	rows.Tables
	see func()
}

func (d during) Table(ctx context.Context, name string, columns []string) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		for row, err := range d.Tables.Table(ctx, name, columns) {
			if d.see(); !yield(row, err) {
				return
			}
		}
	}
}

// TestImportThatIsKilledLeavesNoStore checks that a killed import leaves no store. Otherwise a daemon could open it as an empty store. The
// import can then be run again.
func TestImportThatIsKilledLeavesNoStore(t *testing.T) {
	from, _ := newSoundJournal(t).damagedCopy(t, func([]byte) {})
	rows, err := sqlite.OpenRows(from)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	to, killed, n := t.TempDir(), t.TempDir(), 0
	_, err = sqlite.Import(t.Context(), to, during{rows, func() {
		if n++; n == 200 {
			if err := os.CopyFS(filepath.Join(killed, "data"), os.DirFS(to)); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(killed, "data", "journal.db")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a store is there: %v", err)
	}
	for _, dir := range []string{to, filepath.Join(killed, "data")} {
		if dir != to {
			if _, err := sqlite.Import(t.Context(), dir, rows); err != nil {
				t.Fatalf("asked for again: %v", err)
			}
		}
		s := open(t, sqlite.Config{Dir: dir})
		if id := s.Identity(); !id.Moved || id.Clean {
			t.Errorf("identity %+v", id)
		}
		if c, err := s.Call(t.Context(), key("c007")); err != nil || c.ID != "c007" {
			t.Errorf("c007: %v", err)
		}
		closeStore(t, s)
		if files, _ := filepath.Glob(filepath.Join(dir, "*.copy*")); len(files) > 0 {
			t.Errorf("left: %v", files)
		}
	}
}
