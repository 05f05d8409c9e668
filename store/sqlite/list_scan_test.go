package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store/sqlite"
)

// TestListsOfToolsAndTimesAreBounded checks that a page ends after [call.MaxScan] calls of other tools and other times.
func TestListsOfToolsAndTimesAreBounded(t *testing.T) {
	s := open(t, sqlite.Config{Dir: filepath.Join(t.TempDir(), "data")})
	var written sync.WaitGroup
	for i := range call.MaxScan + 10 {
		c := newCall(fmt.Sprintf("call-%05d", i))
		written.Add(1)
		s.Submit(creation(c), func(err error) {
			if err != nil {
				t.Error(err)
			}
			written.Done()
		})
	}
	written.Wait()
	for _, q := range []call.Query{{Tools: []string{"none"}}, {CreatedAfter: time.Now().Add(time.Hour)}, {Text: "nothing has this"}} {
		q.Namespace = "ns"
		page, err := s.Calls(t.Context(), q)
		if err != nil || len(page.Calls) > 0 || !page.Partial || page.Next == 0 {
			t.Errorf("Calls(%+v): %d calls, partial %t, next %d, %v", q, len(page.Calls), page.Partial, page.Next, err)
		}
		q.After = page.Next
		if page, err = s.Calls(t.Context(), q); err != nil || page.Partial || page.Next != 0 {
			t.Errorf("second page of %+v: partial %t, next %d, %v", q, page.Partial, page.Next, err)
		}
	}
}
