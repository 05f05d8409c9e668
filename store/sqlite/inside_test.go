package sqlite

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

func newCall(id string) *call.Call {
	return &call.Call{Namespace: "ns", ID: id, Status: call.New, Revision: 1, LastSequence: 1}
}

func creation(c *call.Call, d store.Durability) *store.Change {
	return &store.Change{Call: c, Create: true, Events: []call.Event{{Sequence: 1}}, Durability: d}
}

// TestSynchronous is inside the package because it reads a setting of the writing connection.
func TestSynchronous(t *testing.T) {
	var s *Store
	var mu sync.Mutex
	var modes []int64
	cfg := Config{Dir: t.TempDir(), FailPoint: func(point string) error {
		if point != "commit" {
			return nil
		}
		return pragma(s.writer.conn, "synchronous", func(st *sqlite.Stmt) {
			mu.Lock()
			defer mu.Unlock()
			modes = append(modes, st.ColumnInt64(0))
		})
	}}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, d := range []store.Durability{store.Full, store.Normal, store.Normal, store.Full} {
		if err := s.Commit(t.Context(), creation(newCall(fmt.Sprint(i)), d)); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := fmt.Sprint(modes); got != "[2 1 1 2]" { // 2 is FULL, 1 is NORMAL
		t.Errorf("synchronous was %s, want [2 1 1 2]", got)
	}
}

// TestLogStaysSmall writes single changes, each of which changes many pages. The store must then copy the write-ahead log into the database
// from time to time and restart the log.
func TestLogStaysSmall(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 4000 {
		if err := s.Commit(t.Context(), creation(newCall(fmt.Sprintf("%x-%d", sha256.Sum256([]byte{byte(i), byte(i >> 8)}), i)), store.Normal)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "journal.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KiB of log", info.Size()>>10)
	if info.Size() > 32<<20 {
		t.Errorf("the log has %d MiB", info.Size()>>20)
	}
}

// TestTrimLeavesNothing is inside the package because it counts rows that no method of the store returns.
func TestTrimLeavesNothing(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := newCall("a")
	c.Status = call.Suspended
	c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s"}}}
	if err := s.Commit(t.Context(), creation(c, store.Full)); err != nil {
		t.Fatal(err)
	}
	c.Status, c.Revision, c.LastSequence = call.Cancelled, 2, 2
	if err := s.Commit(t.Context(), &store.Change{Call: c, Events: []call.Event{{Sequence: 2}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutRecord(t.Context(), "ns", store.Record{Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	later := s.Now().Add(time.Hour)
	for range 2 { // The first trim makes the tombstone, and the second trim removes it.
		if _, err := s.Trim(t.Context(), later, later, later, 10); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"calls", "events", "suspensions", "tombstones", "records"} {
		err := s.read(t.Context(), func(conn *sqlite.Conn) error {
			return query(conn, "SELECT count(*) FROM "+table, func(st *sqlite.Stmt) error {
				if n := st.ColumnInt(0); n != 0 {
					t.Errorf("%d rows in %s", n, table)
				}
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
