package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

func newRandom(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// A SpoolHarness opens and reopens spools.
type SpoolHarness struct {
	Open   func(t *testing.T) store.Spool
	Reopen func(t *testing.T, s store.Spool) store.Spool
	// Limited opens a spool with limits. Reopen keeps the limits.
	Limited func(t *testing.T, limits store.OutputLimits) store.Spool
}

// RunSpool runs all tests of a spool.
func RunSpool(t *testing.T, h SpoolHarness) {
	tests := []struct {
		name string
		test func(*testing.T, SpoolHarness)
	}{
		{"AppendAndRead", testSpoolAppend}, {"Names", testSpoolNames}, {"Many", testSpoolMany},
		{"Concurrent", testSpoolConcurrent}, {"Remove", testSpoolRemove}, {"Closed", testSpoolClosed}, {"Quotas", testSpoolQuotas},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, h) })
	}
}

func readAll(t *testing.T, s store.Spool, key call.Key, name string) string {
	t.Helper()
	size, err := s.Size(key, name)
	if err != nil {
		t.Fatalf("Size(%v, %q) = %v", key, name, err)
	}
	p := make([]byte, size)
	if n, err := s.ReadAt(key, name, p, 0); int64(n) != size || err != nil && err != io.EOF {
		t.Fatalf("ReadAt(%v, %q) = %d, %v, want %d bytes", key, name, n, err, size)
	}
	return string(p)
}

func testSpoolAppend(t *testing.T, h SpoolHarness) {
	s := h.Open(t)
	key := ns("c1")
	if _, err := s.Size(key, "stdout"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Size before = %v, want ErrNotFound", err)
	}
	if _, err := s.ReadAt(key, "stdout", make([]byte, 1), 0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ReadAt before = %v, want ErrNotFound", err)
	}
	var want bytes.Buffer
	for i := range 20 {
		if i == 10 {
			s.Release(key)
		}
		if i == 15 {
			s = h.Reopen(t, s)
		}
		b := strings.Repeat(fmt.Sprint(i), i)
		off, err := s.Append(key, "", "stdout", []byte(b))
		if err != nil || off != int64(want.Len()) {
			t.Fatalf("Append %d = %d, %v, want offset %d", i, off, err, want.Len())
		}
		want.WriteString(b)
		if got := readAll(t, s, key, "stdout"); got != want.String() {
			t.Fatalf("after %d appends: %q", i+1, got)
		}
	}
	p := make([]byte, 5)
	if n, err := s.ReadAt(key, "stdout", p, 3); n != 5 || err != nil || string(p) != want.String()[3:8] {
		t.Errorf("ReadAt(3) = %d, %v, %q", n, err, p)
	}
	if n, err := s.ReadAt(key, "stdout", p, int64(want.Len())-2); n != 2 || err != io.EOF {
		t.Errorf("ReadAt across the end = %d, %v, want 2, EOF", n, err)
	}
	if n, err := s.ReadAt(key, "stdout", p, int64(want.Len())+10); n != 0 || err != io.EOF {
		t.Errorf("ReadAt beyond the end = %d, %v, want 0, EOF", n, err)
	}
	if _, err := s.Append(key, "", "empty", nil); err != nil {
		t.Fatal(err)
	}
	if size, err := s.Size(key, "empty"); err != nil || size != 0 {
		t.Errorf("Size of an empty stream = %d, %v", size, err)
	}
}

// testSpoolNames checks names of streams, which clients choose. No name may give access to another call, and different names must never
// share a stream.
func testSpoolNames(t *testing.T, h SpoolHarness) {
	s := h.Open(t)
	names := []string{"", ".", "..", "/", "../../escape", "a/b", "a", "A", "a\x00b", strings.Repeat("long", 1000), "a.lock", "日本", "\xff\xfe"}
	keys := []call.Key{{Namespace: "ns", ID: "c"}, {Namespace: "n", ID: "sc"}, {Namespace: "..", ID: ".."}, {Namespace: "/", ID: "/etc/passwd"}, {ID: "nsc"}}
	want := func(k call.Key, n string) string { return fmt.Sprintf("%q %q", k, n) }
	for _, k := range keys {
		for _, n := range names {
			if off, err := s.Append(k, "", n, []byte(want(k, n))); err != nil || off != 0 {
				t.Errorf("Append(%q, %.20q) = %d, %v", k, n, off, err)
			}
		}
	}
	s = h.Reopen(t, s)
	for _, k := range keys {
		for _, n := range names {
			if got := readAll(t, s, k, n); got != want(k, n) {
				t.Errorf("%q %.20q holds %.40q", k, n, got)
			}
		}
	}
}

// testSpoolMany uses more streams than files may be open at once.
func testSpoolMany(t *testing.T, h SpoolHarness) {
	s := h.Open(t)
	const calls = 200
	for round := range 3 {
		for i := range calls {
			if off, err := s.Append(ns(fmt.Sprint("c", i)), "", "out", []byte("12345")); err != nil || off != int64(round*5) {
				t.Fatalf("Append = %d, %v", off, err)
			}
		}
	}
	for i := range calls {
		if got := readAll(t, s, ns(fmt.Sprint("c", i)), "out"); got != "123451234512345" {
			t.Fatalf("call %d holds %q", i, got)
		}
	}
}

// testSpoolConcurrent checks that concurrent appends to one stream do not overlap while other streams are released and removed.
func testSpoolConcurrent(t *testing.T, h SpoolHarness) {
	s := h.Open(t)
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				b := []byte(fmt.Sprintf("<%d.%03d>", w, i))
				off, err := s.Append(ns("shared"), "", "out", b)
				if err != nil {
					t.Errorf("Append = %v", err)
					return
				}
				p := make([]byte, len(b))
				if _, err := s.ReadAt(ns("shared"), "out", p, off); err != nil || !bytes.Equal(p, b) {
					t.Errorf("at %d: %q, %v, want %q", off, p, err, b)
				}
				own := ns(fmt.Sprint("own", w, i))
				if _, err := s.Append(own, "", "out", b); err != nil {
					t.Errorf("Append = %v", err)
				}
				if i%3 == 0 {
					s.Release(ns("shared"))
				}
				if err := s.Remove(own); err != nil {
					t.Errorf("Remove = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if got := readAll(t, s, ns("shared"), "out"); len(got) != writers*each*len("<0.000>") {
		t.Errorf("%d bytes", len(got))
	}
}

func testSpoolRemove(t *testing.T, h SpoolHarness) {
	s := h.Open(t)
	for _, name := range []string{"a", "b"} {
		if _, err := s.Append(ns("c1"), "", name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Append(ns("c2"), "", "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // Removing again changes nothing.
		if err := s.Remove(ns("c1")); err != nil {
			t.Fatalf("Remove = %v", err)
		}
	}
	for _, name := range []string{"a", "b"} {
		if _, err := s.Size(ns("c1"), name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Size of a removed stream = %v, want ErrNotFound", err)
		}
	}
	if got := readAll(t, s, ns("c2"), "a"); got != "x" {
		t.Errorf("the other call holds %q", got)
	}
	if off, err := s.Append(ns("c1"), "", "a", []byte("y")); err != nil || off != 0 {
		t.Errorf("Append after Remove = %d, %v", off, err)
	}
}

func testSpoolClosed(t *testing.T, h SpoolHarness) {
	s := h.Open(t)
	if _, err := s.Append(ns("c1"), "", "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close = %v", err)
	}
	if _, err := s.Append(ns("c1"), "", "a", []byte("x")); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Append = %v, want ErrClosed", err)
	}
	if _, err := s.ReadAt(ns("c1"), "a", make([]byte, 1), 0); !errors.Is(err, store.ErrClosed) {
		t.Errorf("ReadAt = %v, want ErrClosed", err)
	}
	s.Release(ns("c1"))
	if err := s.Close(); err != nil {
		t.Errorf("second Close = %v", err)
	}
}
