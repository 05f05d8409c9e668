package spool_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/spool"
)

func limited(t *testing.T, dir string, limits store.OutputLimits) *spool.Spool {
	t.Helper()
	s, err := spool.New(spool.Config{Dir: dir, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func all(call.Key) (bool, error) { return true, nil }

func put(t *testing.T, s *spool.Spool, id, thread string, n int) {
	t.Helper()
	if _, err := s.Append(key(id), thread, "out", make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

func wantThreadFull(t *testing.T, s *spool.Spool, thread string, capacity int) {
	t.Helper()
	if _, err := s.Append(key("probe"), thread, "out", make([]byte, capacity+1)); err == nil {
		t.Errorf("thread %s has room for more than %d", thread, capacity)
	}
	if _, err := s.Append(key("probe"), thread, "out", make([]byte, capacity)); err != nil {
		t.Errorf("thread %s has no room for %d: %v", thread, capacity, err)
	}
	if err := s.Remove(key("probe")); err != nil {
		t.Fatal(err)
	}
}

// TestQuotasAfterAKill checks that saved counts are not used after a kill. Sweep counts the output again, without the calls that it
// removes.
func TestQuotasAfterAKill(t *testing.T) {
	dir := t.TempDir()
	limits := store.OutputLimits{Thread: 100}
	s := limited(t, dir, limits)
	if _, err := s.Sweep(all); err != nil { // This is the sweep of the first start. The spool is empty.
		t.Fatal(err)
	}
	put(t, s, "before", "a", 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = limited(t, dir, limits)
	if !s.Counted() {
		t.Fatal("not counted after it was closed in order")
	}
	wantThreadFull(t, s, "a", 90)
	put(t, s, "c", "a", 20)
	put(t, s, "forgotten", "a", 30)

	s = limited(t, dir, limits) // As after a kill, the previous spool is not closed.
	if s.Counted() {
		t.Fatal("it trusts counts from before the kill")
	}
	if _, err := s.Sweep(func(k call.Key) (bool, error) { return k.ID != "forgotten", nil }); err != nil {
		t.Fatal(err)
	}
	if !s.Counted() {
		t.Error("not counted after Sweep")
	}
	wantThreadFull(t, s, "a", 70)
	if got := s.Output()["ns"]; got != 30 {
		t.Errorf("the namespace has %d bytes, want 30", got)
	}
}

// TestQuotasThatComeLater checks output that was written before there were limits. That output counts as soon as limits are configured.
// Counts that were saved before that output are not used.
func TestQuotasThatComeLater(t *testing.T) {
	dir := t.TempDir()
	limits := store.OutputLimits{Thread: 100}
	s := limited(t, dir, limits)
	if _, err := s.Sweep(all); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = limited(t, dir, store.OutputLimits{})
	put(t, s, "c", "a", 40)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = limited(t, dir, limits)
	if s.Counted() {
		t.Fatal("it trusts counts from before")
	}
	if _, err := s.Sweep(all); err != nil {
		t.Fatal(err)
	}
	wantThreadFull(t, s, "a", 60)
}

func TestBrokenCounts(t *testing.T) {
	for _, content := range []string{"", "{", "null", "{}"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "counts"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if limited(t, dir, store.OutputLimits{Thread: 1}).Counted() {
			t.Errorf("counts %q are believed", content)
		}
	}
}

// TestCountsAreWhatIsThere checks concurrent appends, refusals and removals. Afterwards the counts of the namespace must equal the bytes on
// the disk, and must not exceed the limit.
func TestCountsAreWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	s := limited(t, dir, store.OutputLimits{Thread: 3000, Namespace: 8000})
	if _, err := s.Sweep(all); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 300 {
				id := rand.IntN(12)
				if i%20 == 19 {
					if err := s.Remove(key(fmt.Sprint(id))); err != nil {
						t.Errorf("Remove = %v", err)
					}
					continue
				}
				_, err := s.Append(key(fmt.Sprint(id)), fmt.Sprint("t", id%4), fmt.Sprint("s", w), make([]byte, rand.IntN(200)))
				if _, full := errors.AsType[*store.QuotaError](err); err != nil && !full {
					t.Errorf("Append = %v", err)
				}
			}
		})
	}
	wg.Wait()
	there := int64(0)
	if err := s.Sizes(t.Context(), func(_ call.Key, n int64) { there += n }); err != nil {
		t.Fatal(err)
	}
	if got := s.Output()["ns"]; got != there || there > 8000 {
		t.Errorf("counted %d bytes, there are %d", got, there)
	}
}
