package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// These tests are inside the package because only the package can tell whether the filter or the database answered.

func numbered(i int) call.Key { return call.Key{Namespace: "ns", ID: fmt.Sprintf("id-%06d", i)} }

func id(i int) member { return ofCall(numbered(i)) }

// TestFilterForgetsNothing adds more ids than the first filters of the chain hold, in two goroutines. No added id may be excluded.
func TestFilterForgetsNothing(t *testing.T) {
	const n = 100_000
	f := newIDFilter()
	if f.excludes(id(0)) {
		t.Error("excluded an id before it knew all")
	}
	f.complete.Store(true)
	var adding sync.WaitGroup
	for part := range 2 {
		adding.Go(func() {
			for i := part; i < n; i += 2 {
				if f.add(id(i)); f.excludes(id(i)) {
					t.Errorf("%v excluded as soon as it was added", numbered(i))
				}
			}
		})
	}
	adding.Wait()
	wrong := 0
	for i := range n {
		if f.excludes(id(i)) {
			t.Fatalf("%v excluded", numbered(i))
		}
		if !f.excludes(id(n + i)) {
			wrong++
		}
		if !f.excludes(member{"other", "", numbered(i).ID}) {
			wrong++
		}
	}
	if wrong > 2*n/100 {
		t.Errorf("%d of %d unknown ids not excluded, want at most 1 %%", wrong, 2*n)
	}
}

// TestFilterIsBounded adds ids after the filter has reached its memory limit. The filter must not grow, and must not exclude an added id.
func TestFilterIsBounded(t *testing.T) {
	f := newIDFilter()
	for range 3 * mostFilters {
		f.left = 0 // Make the filter believe that its last part is full.
		f.add(id(len(*f.chain.Load())))
		f.add(id(-1))
	}
	lines := 0
	for _, part := range *f.chain.Load() {
		lines += len(part)
	}
	if size := lines * 64; size > 16<<20 {
		t.Errorf("the filter takes %d bytes", size)
	}
	if f.complete.Store(true); f.excludes(id(-1)) {
		t.Error("an id that was added is excluded")
	}
}

func reopened(t *testing.T, s *Store) *Store {
	t.Helper()
	dir := s.cfg.Dir
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// ended commits finished calls. Their numbers begin with from and end before to.
func ended(t *testing.T, s *Store, from, to int) {
	t.Helper()
	var all sync.WaitGroup
	for i := from; i < to; i++ {
		c := newCall(numbered(i).ID)
		c.Status = call.Succeeded
		c.Run = tool.Run{ID: "run-" + c.ID, Thread: "thread-" + c.ID}
		all.Add(1)
		s.Submit(creation(c, store.Normal), func(err error) {
			if err != nil {
				t.Error(err)
			}
			all.Done()
		})
	}
	all.Wait()
}

// TestFilterLearns looks up ids while the filter still reads the journal. Each id must be found from the first moment: as a call, or as a
// tombstone if the call was trimmed meanwhile.
func TestFilterLearns(t *testing.T) {
	const n, trimmed = 6000, 2000
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ended(t, s, 0, n)
	trim := func(limit int) {
		t.Helper()
		if keys, err := s.Trim(t.Context(), s.Now().Add(time.Hour), 0, 0, limit); err != nil || len(keys) != limit {
			t.Fatalf("Trim = %d, %v, want %d", len(keys), err, limit)
		}
	}
	trim(trimmed)
	s = reopened(t, s)
	learned := false
	for i := 0; !learned || i%n != 0; i++ {
		select {
		case <-s.learned:
			learned = true
		default:
		}
		_, err := s.Call(t.Context(), numbered(i%n))
		if err != nil && !errors.Is(err, store.ErrTrimmed) {
			t.Fatalf("Call(%d) = %v", i%n, err)
		}
		if i%n == n-1 { // The last call is not trimmed.
			for _, q := range []call.Query{{Namespace: "ns", Run: "run-" + numbered(n-1).ID}, {Namespace: "ns", Thread: "thread-" + numbered(n-1).ID}} {
				if page, err := s.Calls(t.Context(), q); err != nil || len(page.Calls) != 1 {
					t.Fatalf("Calls(%+v) = %d, %v", q, len(page.Calls), err)
				}
			}
		}
		if i%50 == 0 && i < n {
			trim(10)
		}
	}
	if !s.ids.excludes(id(n)) {
		t.Error("the filter excludes nothing once it has learned")
	}
	if !s.hasNoCalls(call.Query{Namespace: "ns", Run: "run"}) || s.hasNoCalls(call.Query{Run: "run"}) || s.hasNoCalls(call.Query{Namespace: "ns"}) {
		t.Error("the filter takes one query for another")
	}
	for i := range n { // The writer must find each of these ids, too.
		c := newCall(numbered(i).ID)
		if err := s.Commit(t.Context(), creation(c, store.Normal)); !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrTrimmed) {
			t.Fatalf("create of %s = %v", c.ID, err)
		}
	}
}

// TestFilterAnswers checks that an answer from the filter still respects a canceled context and a closed store.
func TestFilterAnswers(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	<-s.learned
	if _, err := s.Call(t.Context(), numbered(1)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Call = %v, want ErrNotFound", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Call(ctx, numbered(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Call = %v, want context.Canceled", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), numbered(1)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Call = %v, want ErrClosed", err)
	}
}
