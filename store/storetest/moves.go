package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
)

// testMoves takes calls through many steps, with several steps of one call in one group. Then it compares the results of all kinds of
// queries with a selection from a list. A difference shows an index that did not follow the changes.
func testMoves(t *testing.T, f *fixture) {
	random := newRandom(t)
	m := &moves{fixture: f, random: random}
	for range 8 {
		m.group(1 + random.IntN(60))
		for range 12 {
			m.look()
			m.follow()
		}
		m.count()
		switch random.IntN(4) {
		case 0:
			f.crash()
		case 1:
			m.purge()
		case 2:
			m.trim()
		}
		m.count()
	}
}

type moves struct {
	*fixture
	random    *rand.Rand
	calls     []*call.Call // in the order of their creation
	published []published
	made      int
	asked     int
}

// published is the feed entry of one change.
type published struct {
	of    *call.Call
	entry string
}

var onward = map[call.Status][]call.Status{
	call.New:       {call.New, call.Running, call.Suspended, call.Succeeded, call.Failed, call.Cancelled},
	call.Running:   {call.Running, call.Suspended, call.Succeeded, call.Failed, call.Cancelled},
	call.Suspended: {call.Suspended, call.Resuming, call.Cancelled},
	call.Resuming:  {call.Running, call.Suspended, call.Succeeded, call.Failed, call.Cancelled},
}

func (m *moves) one(words ...string) string { return words[m.random.IntN(len(words))] }

// create returns a new call with a random status.
func (m *moves) create() *call.Call {
	m.made++
	c := newCall(fmt.Sprint("c", m.made), func(c *call.Call) {
		c.Namespace, c.Tool, c.Caller.Subject = m.one("ns", "ns", "other"), m.one("a", "b"), m.one("ann", "bob")
		c.Run.ID, c.Run.Thread, c.Run.ParentCall = m.one("", "r1", "r2"), m.one("", "", "th1", "th2"), m.one("", "", "parent")
		c.Created = start.Add(time.Duration(m.made) * time.Second).Time()
	})
	switch m.random.IntN(8) {
	case 0, 1, 2:
		m.enter(c, call.Status(m.one("SUCCEEDED", "SUCCEEDED", "FAILED", "CANCELLED")))
	case 3:
		m.enter(c, call.Suspended)
	}
	m.calls = append(m.calls, c)
	return c
}

// enter sets the status of a call, and the fields that depend on it.
func (m *moves) enter(c *call.Call, to call.Status) {
	c.Rounds = slices.Clone(c.Rounds)
	if n := len(c.Rounds); c.Status == call.Suspended && n > 0 && to != call.Suspended {
		c.Rounds[n-1].Closed = true
	}
	if to == call.Suspended && c.Status != call.Suspended {
		m.asked++
		c.Rounds = append(c.Rounds, call.Round{Suspension: call.Suspension{ID: fmt.Sprint("s", m.asked), Round: len(c.Rounds) + 1, Action: m.one("approval", "input")}})
	}
	if c.Status = to; to.Terminal() {
		c.Ended = m.clock.Now().Add(time.Duration(m.random.IntN(5)-2) * time.Minute).Time()
	}
}

// group submits n random changes, and sometimes one that is refused, as one group.
func (m *moves) group(n int) {
	var changes []*store.Change
	submitted := func(c *call.Call, change *store.Change) {
		as := *c
		if e := change.Events; c.ID != "late" {
			m.published = append(m.published, published{c, fmt.Sprintf("%s:%d-%d", c.ID, e[0].Sequence, c.LastSequence)})
		}
		change.Call, change.Durability = &as, store.Full
		changes = append(changes, change)
	}
	for range n {
		open := slices.DeleteFunc(slices.Clone(m.calls), func(c *call.Call) bool { return c.Status.Terminal() })
		if len(open) == 0 || m.random.IntN(3) == 0 {
			c := m.create()
			submitted(c, creation(c))
			continue
		}
		c := open[max(0, len(open)-1-m.random.IntN(12))]
		to := onward[c.Status][m.random.IntN(len(onward[c.Status]))]
		c.Revision, c.LastSequence = c.Revision+1, c.LastSequence+1
		m.enter(c, to)
		submitted(c, &store.Change{Events: events(int(c.LastSequence), int(c.LastSequence))})
	}
	if m.random.IntN(2) == 0 { // a change that is refused
		submitted(newCall("late", func(c *call.Call) { c.Revision = 7 }), &store.Change{Events: events(9, 9)})
	}
	for i, err := range m.submit(changes) {
		if late := changes[i].Call.ID == "late"; late != (err != nil) {
			m.t.Fatalf("change %d of %s: %v", i, changes[i].Call.ID, err)
		}
	}
}

// follow reads a random feed and compares it with the entries in m.published.
func (m *moves) follow() {
	m.t.Helper()
	f := store.Feed{Namespace: m.one("ns", "ns", "other")}
	words := []*string{&f.Run, &f.Thread, &f.Caller, new(string)}
	*words[m.random.IntN(4)] = m.one("r1", "th1", "ann", "nothing")
	is := func(want, have string) bool { return want == "" || want == have }
	var want []string
	for _, e := range m.published {
		if c := e.of; c.Purge == nil && f.Namespace == c.Namespace && is(f.Run, c.Run.ID) && is(f.Thread, c.Run.Thread) && is(f.Caller, c.Caller.Subject) {
			want = append(want, e.entry)
		}
	}
	if got, _ := m.fixture.follow(f, 0, 1+m.random.IntN(9)); !same(got, want) {
		m.t.Fatalf("Feed(%+v):\n got %v\nwant %v", f, got, want)
	}
}

// look runs a random query and compares the result with a selection from m.calls.
func (m *moves) look() {
	m.t.Helper()
	q := call.Query{OldestFirst: m.random.IntN(2) == 0, Limit: 1 + m.random.IntN(12)}
	set := func(word *string, values ...string) {
		if m.random.IntN(3) == 0 {
			*word = m.one(values...)
		}
	}
	if q.Namespace = "ns"; m.random.IntN(4) == 0 {
		q.Namespace = m.one("", "other", "nobody")
	}
	set(&q.Caller, "ann", "bob")
	if m.random.IntN(3) == 0 {
		q.Tools = [][]string{{"a"}, {"b"}, {"a", "b"}, {"c"}}[m.random.IntN(4)]
	}
	if m.random.IntN(2) == 0 {
		set(&q.Run, "r1", "r2")
		set(&q.Thread, "th1", "th2")
		set(&q.ParentCall, "parent")
		set(&q.Action, "approval", "input")
	}
	for m.random.IntN(3) > 0 {
		q.Statuses = append(q.Statuses, call.Status(m.one("NEW", "RUNNING", "SUSPENDED", "RESUMING", "FAILED", "CANCELLED", "FAILED", "CANCELLED", "SUCCEEDED", "STRANGE")))
	}
	if m.random.IntN(3) == 0 {
		q.CreatedAfter = start.Add(time.Duration(m.random.IntN(m.made+1)) * time.Second).Time()
	}
	if m.random.IntN(3) == 0 {
		q.CreatedBefore = start.Add(time.Duration(m.random.IntN(m.made+2)) * time.Second).Time()
	}
	model, order := map[string]*call.Call{}, []string{}
	for _, c := range m.calls {
		if q.Action == "" || c.Open() != nil && c.Open().Action == q.Action {
			model[c.ID], order = c, append(order, c.ID)
		}
	}
	if want, got := selected(model, order, q), m.all(q); !same(got, want) {
		m.t.Fatalf("Calls(%+v):\n got %v\nwant %v", q, got, want)
	}
}

// count compares the counts of the store, and the calls that Unfinished visits, with m.calls.
func (m *moves) count() {
	m.t.Helper()
	want, visited := map[call.Status]int{}, []string{}
	for _, c := range m.calls {
		if want[c.Status]++; c.Status.Terminal() {
			delete(want, c.Status)
		}
		if c.Status == call.New || c.Status == call.Running || c.Status == call.Resuming {
			visited = append(visited, c.ID)
		}
	}
	counts, err := m.Counts(m.t.Context())
	if fmt.Sprint(counts) != fmt.Sprint(want) || err != nil {
		m.t.Fatalf("Counts = %v, %v, want %v", counts, err, want)
	}
	var seen []string
	err = m.Unfinished(m.t.Context(), func(k call.Key, _ *call.Call, err error) error {
		seen = append(seen, k.ID)
		return err
	})
	if err != nil || !same(seen, visited) {
		m.t.Fatalf("Unfinished: %v, %v, want %v", seen, err, visited)
	}
}

func (m *moves) purge() {
	for _, c := range m.calls {
		if c.Status.Terminal() && c.Namespace == "ns" && c.Purge == nil && m.random.IntN(4) == 0 {
			m.fixture.purge(c.ID)
			*c = *m.get(c.ID)
		}
	}
}

// trim removes calls that ended before a random time, a few at a time.
func (m *moves) trim() {
	m.t.Helper()
	before := m.clock.Now().Add(time.Duration(m.random.IntN(5)-2) * time.Minute)
	m.clock.move(2 * time.Minute)
	model := map[string]*call.Call{}
	for _, c := range m.calls {
		model[c.Namespace+"/"+c.ID] = c
	}
	for limit := 1 + m.random.IntN(9); ; {
		trimmed, err := m.Trim(m.t.Context(), before, 0, 0, limit)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, k := range trimmed {
			c := model[k.Namespace+"/"+k.ID]
			if c == nil || !c.Status.Terminal() {
				m.t.Fatalf("%v is gone, which was %+v", k, c)
			}
			delete(model, k.Namespace+"/"+k.ID)
			m.calls = slices.DeleteFunc(m.calls, func(o *call.Call) bool { return o == c })
			m.published = slices.DeleteFunc(m.published, func(o published) bool { return o.of == c })
			if _, err := m.Call(m.t.Context(), k); !errors.Is(err, store.ErrTrimmed) {
				m.t.Fatalf("%v after the trim: %v", k, err)
			}
		}
		if len(trimmed) < limit {
			break
		}
	}
}
