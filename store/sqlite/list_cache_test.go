package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
)

func waitingCall(i int) *call.Call {
	c := newCall(fmt.Sprintf("call-%05d", i))
	c.Status, c.Created = call.Suspended, time.Unix(int64(i), 0).UTC()
	c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s-" + c.ID, Round: 1, Action: "approval", Message: "first"}}}
	return c
}

var inbox = call.Query{Namespace: "ns", Statuses: []call.Status{call.Suspended}, OldestFirst: true, Limit: 2000}

// sameAsGet reads the inbox, which may come from the cache. It compares each call with the result of a get, which reads the row.
func sameAsGet(t *testing.T, s *sqlite.Store, want int) {
	t.Helper()
	page, err := s.Calls(t.Context(), inbox)
	if err != nil || len(page.Calls) != want || len(page.Corrupt) > 0 {
		t.Fatalf("%d calls, %d broken, %v; want %d", len(page.Calls), len(page.Corrupt), err, want)
	}
	for _, c := range page.Calls {
		stored, err := s.Call(t.Context(), c.Key())
		if diff := cmp.Diff(stored, c); diff != "" || err != nil {
			t.Fatalf("get and list differ: %v\n%s", err, diff)
		}
	}
}

// TestListIsNeverOld checks that lists show each kind of change at once, even with more suspended calls than the cache holds.
func TestListIsNeverOld(t *testing.T) {
	s := open(t, sqlite.Config{Dir: filepath.Join(t.TempDir(), "data")})
	const calls = 1200
	all := make([]*call.Call, calls)
	var written sync.WaitGroup
	for i := range all {
		all[i] = waitingCall(i)
		written.Add(1)
		s.Submit(creation(all[i]), func(err error) {
			if err != nil {
				t.Error(err)
			}
			written.Done()
		})
	}
	written.Wait()
	sameAsGet(t, s, calls)
	sameAsGet(t, s, calls)

	again := *all[3] // The call suspends again.
	again.Revision++
	again.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s-again", Action: "approval", Message: "second"}}}
	commit(t, s, &store.Change{Call: &again})
	sameAsGet(t, s, calls)

	event := call.Event{Sequence: all[4].LastSequence + 1, Time: time.Unix(9, 0).UTC(), Type: call.EventProgress}
	commit(t, s, &store.Change{Key: all[4].Key(), Events: []call.Event{event}}) // This change does not touch the record.
	sameAsGet(t, s, calls)

	ended := *all[5]
	ended.Revision++
	ended.Status = call.Cancelled
	commit(t, s, &store.Change{Call: &ended})
	sameAsGet(t, s, calls-1)
}

// TestListsDuringChanges runs lists and changes at the same time. A list must show each call as it was at some moment, and a later list
// must never show an older state.
func TestListsDuringChanges(t *testing.T) {
	s := open(t, sqlite.Config{Dir: filepath.Join(t.TempDir(), "data")})
	c := waitingCall(0)
	commit(t, s, creation(c))
	const changes = 200
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for revision := int64(0); revision <= changes; {
				page, err := s.Calls(t.Context(), inbox)
				if err != nil || len(page.Calls) != 1 || page.Calls[0].Revision < revision || page.Calls[0].Rounds[0].Suspension.Round != int(page.Calls[0].Revision) {
					t.Errorf("after revision %d: %+v, %v", revision, page, err)
					return
				}
				revision = page.Calls[0].Revision
			}
		})
	}
	for range changes {
		next := *c
		next.Revision++
		next.Rounds = []call.Round{c.Rounds[0]}
		next.Rounds[0].Suspension.Round = int(next.Revision)
		commit(t, s, &store.Change{Call: &next})
		c = &next
	}
	readers.Wait()
}
