package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/store/storetest"
)

func open(t testing.TB, cfg sqlite.Config) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	type opened struct {
		dir   string
		crash *bool
	}
	stores := map[store.Store]opened{}
	start := func(t *testing.T, dir string, o storetest.Options) store.Store {
		crash := new(bool)
		s := open(t, sqlite.Config{Dir: dir, Now: o.Now, MaxOpen: 8, FailPoint: func(point string) error {
			if point == "close" && *crash {
				return errors.New("killed")
			}
			return nil
		}})
		stores[s] = opened{dir, crash}
		return s
	}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T, o storetest.Options) store.Store {
			return start(t, filepath.Join(t.TempDir(), "data"), o)
		},
		Reopen: func(t *testing.T, s store.Store, o storetest.Options) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return start(t, stores[s].dir, o)
		},
		// This crash only skips the writes of a clean end. TestKill uses kill -9.
		Crash: func(t *testing.T, s store.Store, o storetest.Options) store.Store {
			*stores[s].crash = true
			if err := s.Close(); err == nil {
				t.Fatal("the store closed in order")
			}
			return start(t, stores[s].dir, o)
		},
	})
}

func newCall(id string) *call.Call {
	return &call.Call{Namespace: "ns", ID: id, Tool: "noop", Requested: `{"a":1}`, Effective: `{"a":1}`, RequestDigest: "d", Class: call.Sync,
		Status: call.New, Executed: call.NotStarted, Revision: 1, LastSequence: 1}
}

func creation(c *call.Call) *store.Change {
	return &store.Change{Call: c, Create: true, Events: []call.Event{{Sequence: 1, Type: call.EventAccepted}}}
}

func key(id string) call.Key { return call.Key{Namespace: "ns", ID: id} }

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, sqlite.Config{Dir: dir})
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestListsAreBounded(t *testing.T) {
	storetest.RunBounds(t, open(t, sqlite.Config{Dir: filepath.Join(t.TempDir(), "data")}))
}
