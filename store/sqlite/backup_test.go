package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/store/sqlite"
)

// TestBackup checks a backup that is made during writes. The backup must contain the calls that were stored before, and only the output of
// its calls.
func TestBackup(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	for i := range 50 {
		c := newCall(fmt.Sprintf("c%02d", i))
		if err := s.Commit(t.Context(), creation(c)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Spool().Append(c.Key(), "", "stdout", []byte("out of "+c.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Spool().Append(key("unknown"), "", "stdout", []byte("of no call")); err != nil {
		t.Fatal(err)
	}
	writing, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && writing.Err() == nil; i++ {
			err = s.Commit(context.Background(), creation(newCall(fmt.Sprintf("later%06d", i))))
		}
		stopped <- err
	}()
	saved := filepath.Join(to, "saved")
	copied, err := s.Backup(t.Context(), saved)
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		t.Fatal(err)
	}
	if copied.Calls < 50 || copied.Files != 50 || copied.Bytes == 0 {
		t.Errorf("copied %+v", copied)
	}
	for _, again := range []string{saved, dir} {
		if _, err := s.Backup(t.Context(), again); !errors.Is(err, sqlite.ErrOccupied) {
			t.Errorf("Backup over %s = %v", again, err)
		}
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Backup(cut, filepath.Join(to, "cut")); err == nil {
		t.Error("a backup that was cut off succeeded")
	}
	if _, err := sqlite.Backup(t.Context(), dir, filepath.Join(to, "second")); !errors.Is(err, sqlite.ErrLocked) {
		t.Errorf("Backup beside the owner = %v", err)
	}
	id := s.Identity()
	closeStore(t, s)
	if _, err := sqlite.Backup(t.Context(), dir, filepath.Join(to, "second")); err != nil {
		t.Errorf("Backup of a closed store = %v", err)
	}
	entries, err := os.ReadDir(to)
	if err != nil || len(entries) != 2 {
		t.Errorf("left are %v, %v", entries, err)
	}

	epoch := id.Epoch
	for _, from := range []string{saved, filepath.Join(to, "second")} {
		restored := filepath.Join(t.TempDir(), "data")
		if _, err := sqlite.Restore(t.Context(), from, restored); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Restore(t.Context(), from, restored); !errors.Is(err, sqlite.ErrOccupied) {
			t.Errorf("Restore over a store = %v", err)
		}
		r := open(t, sqlite.Config{Dir: restored})
		if got := r.Identity(); !got.Moved || got.StoreID != id.StoreID || got.Epoch < epoch+1_000_000 {
			t.Errorf("Identity of a restored store = %+v, original %+v", got, id)
		}
		for i := range 50 {
			c := newCall(fmt.Sprintf("c%02d", i))
			b := make([]byte, 64)
			n, _ := r.Spool().ReadAt(c.Key(), "stdout", b, 0)
			if _, err := r.Call(t.Context(), c.Key()); err != nil || string(b[:n]) != "out of "+c.ID {
				t.Errorf("%s: %v, output %q", c.ID, err, b[:n])
			}
		}
		if _, err := r.Spool().Size(key("unknown"), "stdout"); err == nil {
			t.Error("output of no call was copied")
		}
		closeStore(t, r)
		if info, err := os.Stat(filepath.Join(restored, "journal.db")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
}

// TestRestoreRefuses checks that Restore refuses a file that is no database, a store that is in use, and an empty directory.
func TestRestoreRefuses(t *testing.T) {
	text := t.TempDir()
	if err := os.WriteFile(filepath.Join(text, "journal.db"), make([]byte, 9000), 0o600); err != nil {
		t.Fatal(err)
	}
	inUse := t.TempDir()
	s := open(t, sqlite.Config{Dir: inUse})
	defer closeStore(t, s)
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{text, inUse, t.TempDir()} {
		dest := filepath.Join(t.TempDir(), "data")
		if _, err := sqlite.Restore(t.Context(), src, dest); err == nil {
			t.Errorf("restored %s", src)
		}
		if left, err := os.ReadDir(filepath.Dir(dest)); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	}
}
