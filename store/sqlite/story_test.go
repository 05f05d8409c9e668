package sqlite_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/store/sqlite/faultfs"
	"github.com/toold-dev/toold/tool"
)

// A mark records what the user of the journal knows at one moment of the write log.
type mark struct {
	commit int  // number of the step that was submitted or acknowledged
	acked  bool // The step was acknowledged.
	full   bool // The step was acknowledged after an fsync.
	epoch  int64
	clock  time.Time
}

// A story runs a journal on a recorded disk. It contains each kind of change, alone and in groups, with checkpoints, trims and a restart.
// states has the visible state of the journal after each step.
type story struct {
	t      *testing.T
	disk   *faultfs.Disk
	dir    string
	s      *sqlite.Store
	states []string
	now    time.Time
	calls  map[string]*call.Call
}

var scriptStart = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

const scriptCalls = 40

func newStory(t *testing.T, disk *faultfs.Disk, dir string) *story {
	return &story{t: t, disk: disk, dir: dir, now: scriptStart, calls: map[string]*call.Call{}}
}

func (sc *story) clock() time.Time { return sc.now }

func (sc *story) open() {
	sc.t.Helper()
	s, err := sqlite.Open(sc.t.Context(), sqlite.Config{Dir: sc.dir, Now: sc.clock})
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.s = s
	sc.disk.Mark(mark{commit: len(sc.states) - 1, acked: true, full: true, epoch: s.Identity().Epoch, clock: s.Now().Time()})
	if len(sc.states) == 0 {
		sc.states = append(sc.states, state(sc.t, s))
	}
}

// step runs one step and records the state of the journal after it.
func (sc *story) step(d store.Durability, do func() error) {
	sc.t.Helper()
	n := len(sc.states)
	sc.disk.Mark(mark{commit: n})
	if err := do(); err != nil {
		sc.t.Fatalf("step %d: %v", n, err)
	}
	sc.disk.Mark(mark{commit: n, acked: true, full: d == store.Full, clock: sc.s.Now().Time()})
	sc.states = append(sc.states, state(sc.t, sc.s))
	sc.now = sc.now.Add(time.Second)
}

func (sc *story) commit(c *store.Change) {
	sc.t.Helper()
	sc.step(c.Durability, func() error { return sc.s.Commit(sc.t.Context(), c) })
}

// group commits the first change alone and the others as one group.
func (sc *story) group(first *store.Change, others ...*store.Change) {
	sc.t.Helper()
	n := len(sc.states)
	var wg sync.WaitGroup
	committed, leave := make(chan struct{}), make(chan struct{})
	sc.disk.Mark(mark{commit: n})
	wg.Add(1 + len(others))
	sc.s.Submit(first, func(err error) {
		defer wg.Done()
		if err != nil {
			sc.t.Error(err)
		}
		sc.disk.Mark(mark{commit: n, acked: true, full: first.Durability == store.Full, clock: sc.s.Now().Time()})
		close(committed)
		<-leave
	})
	<-committed
	sc.states = append(sc.states, state(sc.t, sc.s))
	sc.disk.Mark(mark{commit: n + 1})
	for _, c := range others {
		sc.s.Submit(c, func(err error) {
			defer wg.Done()
			if err != nil {
				sc.t.Error(err)
			}
		})
	}
	close(leave)
	wg.Wait()
	sc.disk.Mark(mark{commit: n + 1, acked: true, full: true, clock: sc.s.Now().Time()})
	sc.states = append(sc.states, state(sc.t, sc.s))
}

// made returns the creation of a call with about n bytes of arguments.
func (sc *story) made(id string, n int, d store.Durability) *store.Change {
	c := newCall(id)
	c.Created = sc.now
	c.Run.ID, c.Run.Thread = "run-"+id[:2], "thread-"+id[:2]
	c.Requested = fmt.Sprintf("%q", strings.Repeat(id, 1+n/len(id)))
	sc.calls[id] = c
	change := creation(c)
	change.Durability = d
	return change
}

// ended returns the creation of a finished read-only call.
func (sc *story) ended(id string) *store.Change {
	change := sc.made(id, 1000, store.Normal)
	c := change.Call
	c.Class, c.Status, c.Ended = call.Behind, call.Succeeded, sc.now
	return change
}

// moved returns the next step of a call.
func (sc *story) moved(id string, to call.Status) *store.Change {
	c := sc.calls[id]
	c.Revision++
	c.LastSequence++
	c.Status = to
	change := &store.Change{Call: c, Events: []call.Event{{Sequence: c.LastSequence, Type: call.EventStatusChanged, Status: to}}}
	switch to {
	case call.Running:
		c.Attempts = append(c.Attempts, call.Attempt{Number: len(c.Attempts) + 1})
	case call.Suspended:
		c.Rounds = append(c.Rounds, call.Round{Suspension: call.Suspension{ID: fmt.Sprint("s-", id), Action: "approval", ExpiresAt: call.StampOf(scriptStart.Add(time.Hour))}})
	case call.Resuming:
		change.Decision = &store.Decision{Namespace: "ns", ID: "d-" + id, CallID: id, SuspensionID: "s-" + id, Content: id, Decision: tool.Decision{ID: "d-" + id}}
	case call.Succeeded:
		c.Ended = sc.now
		c.Result = &tool.Result{Status: tool.StatusSuccess, Data: `"done"`}
		change.Documents = []store.DocumentChange{{ScopeID: c.Run.ID, Command: tool.Command{Op: tool.OpSet, Scope: tool.RunScope, Key: "k", Value: fmt.Sprintf("%q", id)}}}
		change.Records = []store.Record{{Kind: "note", Key: id, Bytes: []byte("finished " + id)}}
	}
	return change
}

func (sc *story) progress(id string, n int) *store.Change {
	c := sc.calls[id]
	change := &store.Change{Key: c.Key(), Durability: store.Normal}
	for range n {
		c.LastSequence++
		change.Events = append(change.Events, call.Event{Sequence: c.LastSequence, Type: call.EventProgress, Progress: &tool.Progress{Message: fmt.Sprint("event ", c.LastSequence)}})
	}
	return change
}

func name(n int) string { return fmt.Sprintf("c%02d", n) }

// life runs a whole call, with progress that is committed with NORMAL.
func (sc *story) life(id string, size int) {
	sc.t.Helper()
	sc.commit(sc.made(id, size, store.Full))
	sc.commit(sc.moved(id, call.Suspended))
	sc.commit(sc.moved(id, call.Resuming))
	sc.commit(sc.moved(id, call.Running))
	sc.commit(sc.progress(id, 3))
	sc.commit(sc.moved(id, call.Succeeded))
}

func (sc *story) checkpoint() {
	sc.t.Helper()
	sc.step(store.Full, sc.s.Checkpoint)
}

// run runs the story on a new journal.
func (sc *story) run() {
	t := sc.t
	t.Helper()
	sc.open()
	sc.life(name(0), 100)
	sc.commit(sc.made(name(1), 20_000, store.Full)) // This call is so large that its row needs overflow pages.
	sc.commit(sc.moved(name(1), call.Suspended))
	var others []*store.Change
	for n := 2; n < 14; n++ {
		d := store.Full
		if n%3 == 0 {
			d = store.Normal
		}
		others = append(others, sc.made(name(n), 50*n, d))
	}
	sc.group(others[0], others[1:]...)
	sc.commit(sc.progress(name(2), 2))
	sc.checkpoint()
	sc.commit(sc.moved(name(2), call.Suspended)) // After this change, the log starts again from its beginning.
	for n := 14; n < 20; n++ {
		sc.commit(sc.made(name(n), 9000, store.Normal)) // Read-only calls are committed with Normal, too.
	}
	sc.commit(sc.moved(name(2), call.Resuming))
	sc.step(store.Full, func() error {
		change := sc.progress(name(3), 1)
		change.Durability, change.Run = store.Full, &store.Run{Namespace: "ns", ID: "run-c0", State: call.RunBlocked, Reason: "no", CallID: name(3), Changed: call.StampOf(sc.now)}
		return sc.s.Commit(t.Context(), change)
	})
	sc.checkpoint()
	sc.commit(sc.progress(name(3), 4))
	sc.step(store.Full, func() error {
		return sc.s.PutRecord(t.Context(), "ns", store.Record{Kind: "note", Key: "x", Bytes: []byte("described")})
	})
	sc.group(sc.made(name(30), 100, store.Full), sc.ended(name(31)), sc.ended(name(32)), sc.made(name(33), 100, store.Full))
	sc.commit(sc.moved(name(1), call.Cancelled))
	sc.step(store.Full, func() error { // This trim frees pages, which later steps use again.
		_, err := sc.s.Trim(t.Context(), call.StampOf(scriptStart).Add(24*time.Hour), 0, 0, 10)
		return err
	})
	if err := sc.s.Close(); err != nil {
		t.Fatal(err)
	}
	sc.open()
	sc.life(name(20), 10_000)
	sc.group(sc.made(name(34), 100, store.Full), sc.made(name(35), 100, store.Full), sc.ended(name(36)), sc.ended(name(37)), sc.ended(name(38)))
	sc.step(store.Full, func() error {
		return sc.s.Purge(t.Context(), key(name(37)), call.Purge{Time: sc.now})
	})
	sc.commit(sc.moved(name(2), call.Running))
	sc.checkpoint()
	for n := 21; n < 26; n++ {
		sc.commit(sc.made(name(n), 3000, store.Normal))
	}
	sc.commit(sc.moved(name(2), call.Succeeded))
	for n := 26; n < 30; n++ {
		sc.commit(sc.made(name(n), 300, store.Normal))
	}
}

// state returns everything that a reader can see, as text for comparison.
func state(t *testing.T, s *sqlite.Store) string {
	t.Helper()
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	page, err := s.Calls(t.Context(), call.Query{Namespace: "ns", Limit: 1000, OldestFirst: true})
	printf("calls %d corrupt %v %v", len(page.Calls), page.Corrupt, err)
	for _, c := range page.Calls {
		record, err := call.EncodeCall(c)
		printf("%s %s %x %v", c.ID, c.Status, record, err)
		events, first, err := s.Events(t.Context(), c.Key(), 0, 1000)
		printf("  log from %d: %x %v", first, encoded(t, events), err)
		for _, r := range c.Rounds {
			by, err := s.CallBySuspension(t.Context(), "ns", r.Suspension.ID)
			printf("  question %s: %t %v", r.Suspension.ID, by != nil && by.ID == c.ID, err)
		}
	}
	for n := range scriptCalls {
		d, err := s.Decision(t.Context(), "ns", "d-"+name(n))
		if !errors.Is(err, store.ErrNotFound) {
			printf("decision %s of %s for %s: %s %v %v", d.ID, d.SuspensionID, d.CallID, d.Content, d.Decision.Action, err)
		}
		if _, err := s.Call(t.Context(), key(name(n))); err != nil && !errors.Is(err, store.ErrNotFound) {
			printf("%s is %v", name(n), err)
		}
	}
	for _, run := range []string{"run-c0", "run-c1", "run-c2"} {
		docs, err := s.Documents(t.Context(), "ns", store.DocumentScope{Scope: tool.RunScope, ID: run})
		for _, d := range docs {
			printf("document %s %s %d %s", d.ScopeID, d.Key, d.Revision, d.Value)
		}
		if err != nil {
			printf("documents %v", err)
		}
		r, err := s.Run(t.Context(), "ns", run)
		if r != nil {
			printf("run %s %s %s %s %d", r.ID, r.State, r.Reason, r.CallID, int64(r.Changed))
		}
		counts, countErr := s.RunCounts(t.Context(), "ns", run)
		printf("run %v %v %v", err, counts, countErr)
	}
	records, err := s.Records(t.Context(), "ns", "note", 0, 1000)
	for _, r := range records {
		printf("record %d %s %s %s %d", r.Position, r.Key, r.Bytes, r.CallID, int64(r.Time))
	}
	if err != nil {
		printf("records %v", err)
	}
	counts, err := s.Counts(t.Context())
	printf("counts %v %v", counts, err)
	entries, newest, err := s.Feed(t.Context(), store.Feed{Namespace: "ns"}, 0, 10_000)
	for _, e := range entries {
		printf("feed %d %v %d %x", e.Position, e.Key, e.Epoch, encoded(t, e.Events))
	}
	printf("feed to %d %v", newest, err)
	next, err := s.NextExpiry(t.Context())
	printf("expiry %v %v", next, err)
	return b.String()
}

func encoded(t *testing.T, events []call.Event) []byte {
	t.Helper()
	if len(events) == 0 {
		return nil
	}
	b, err := call.EncodeEvents(events)
	if err != nil {
		t.Error(err)
	}
	return b
}
