package storetest

import (
	"errors"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// testSpoolQuotas checks that an append that exceeds a quota is refused as a whole, even when other threads have quota left. After the
// removal of a call there is space again. The counts survive reopening the spool.
func testSpoolQuotas(t *testing.T, h SpoolHarness) {
	s := h.Limited(t, store.OutputLimits{Thread: 10, Namespace: 25})
	put := func(id, thread string, n int, of string) {
		t.Helper()
		_, err := s.Append(ns(id), thread, "out", make([]byte, n))
		full, _ := errors.AsType[*store.QuotaError](err)
		switch {
		case of == "" && err != nil:
			t.Errorf("%d bytes of %s: %v", n, id, err)
		case of != "" && (full == nil || full.Thread != (of == "thread")):
			t.Errorf("%d bytes of %s: %v, want the quota of the %s", n, id, err, of)
		}
	}
	put("a1", "a", 6, "")
	put("a2", "a", 5, "thread")
	put("a2", "a", 4, "")
	put("a2", "a", 1, "thread")
	put("b1", "b", 10, "")
	put("none", "", 6, "namespace")
	put("none", "", 5, "")
	put("c1", "c", 1, "namespace")
	if _, err := s.Append(call.Key{Namespace: "other", ID: "c1"}, "a", "out", make([]byte, 10)); err != nil {
		t.Errorf("another namespace: %v", err)
	}
	if _, err := s.Size(ns("c1"), "out"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Size of what was refused = %v, want ErrNotFound", err)
	}
	s = h.Reopen(t, s)
	put("a3", "a", 1, "thread")
	for range 2 { // Removing again changes nothing.
		if err := s.Remove(ns("a1")); err != nil {
			t.Fatal(err)
		}
	}
	put("a3", "a", 7, "thread")
	put("a3", "a", 6, "")
	put("c1", "c", 1, "namespace")
	if err := s.Remove(ns("b1")); err != nil {
		t.Fatal(err)
	}
	put("c1", "c", 10, "")
	put("c1", "c", 1, "thread")
}
