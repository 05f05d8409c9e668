package postgres_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
)

// TestGroupsAreForgotten checks that the buffers for the next group keep no call of an earlier group alive.
func TestGroupsAreForgotten(t *testing.T) {
	s := open(t, postgres.Config{})
	written := func() (kept []weak.Pointer[call.Call]) {
		var changes []*store.Change
		for i := range 50 {
			c := creation(newCall(fmt.Sprint("many", i)))
			changes, kept = append(changes, c), append(kept, weak.Make(c.Call))
		}
		for _, err := range together(s, creation(newCall("first")), changes...) {
			if err != nil {
				t.Fatal(err)
			}
		}
		return kept
	}()
	for i := range 2 {
		if err := s.Commit(t.Context(), creation(newCall(fmt.Sprint("next", i)))); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	left := 0
	for _, p := range written {
		if p.Value() != nil {
			left++
		}
	}
	if left > 0 {
		t.Errorf("%d of %d calls are still there", left, len(written))
	}
}
