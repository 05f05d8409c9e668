package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

func (f *fixture) suspended(id string, expires call.Stamp, edit ...func(*call.Call)) *call.Call {
	f.t.Helper()
	c := f.create(id, edit...)
	f.commit(suspend(c, "s-"+id, "approval", expires))
	return c
}

// decide returns the change that answers the open suspension of c.
func decide(c *call.Call, id, content string) *store.Change {
	s := c.Open()
	change := step(c, call.Resuming)
	change.NotAfter = s.ExpiresAt
	change.Decision = &store.Decision{Namespace: c.Namespace, ID: id, CallID: c.ID, SuspensionID: s.ID, Content: content,
		Decision: tool.Decision{ID: id, Action: tool.Resume, Result: content, DecidedBy: tool.Principal{Subject: "bob", Roles: []string{"approver"}}}}
	c.LastRound().Decision = &change.Decision.Decision
	return change
}

func testDecideOnce(t *testing.T, f *fixture) {
	f.suspended("c1", start.Add(time.Hour))
	won := race(100, func(i int) error {
		c, err := f.Call(t.Context(), ns("c1"))
		if err != nil {
			return err
		}
		if c.Open() == nil {
			return store.ErrConflict // Another goroutine had decided the call before this one began.
		}
		return f.Commit(t.Context(), decide(c, fmt.Sprint("d", i), fmt.Sprint(i)))
	}, func(err error) bool { return errors.Is(err, store.ErrConflict) }, t)
	winner := f.get("c1").LastRound().Decision
	if winner == nil || winner.ID != fmt.Sprint("d", won) {
		t.Fatalf("stored decision %+v, winner d%d", winner, won)
	}
	for i := range 100 {
		_, err := f.Decision(t.Context(), "ns", fmt.Sprint("d", i))
		if i == won && err != nil || i != won && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Decision(d%d) = %v, winner d%d", i, err, won)
		}
	}
}

func testDecisionReplay(t *testing.T, f *fixture) {
	c := f.suspended("c1", start.Add(time.Hour))
	other := f.suspended("c2", start.Add(time.Hour))
	stale := f.get("c1")
	f.commit(decide(c, "d", "content"))
	f.clock.move(2 * time.Hour) // A replay is recognized even after the expiry.
	for name, c := range map[string]*call.Call{"replay": stale, "another call": other} {
		if err := f.Commit(t.Context(), decide(c, "d", "content")); !errors.Is(err, store.ErrDecisionExists) {
			t.Errorf("%s = %v, want ErrDecisionExists", name, err)
		}
	}
	d, err := f.Decision(t.Context(), "ns", "d")
	if err != nil || d.CallID != "c1" || d.SuspensionID != "s-c1" || d.Content != "content" || d.Decision.Result != "content" ||
		d.Decision.DecidedBy.Subject != "bob" || !d.Decision.Time.Equal(start.Time()) {
		t.Errorf("Decision = %+v, %v", d, err)
	}
	f.step(c, call.Running)
	f.step(c, call.Succeeded)
	f.commitTrim(start.Add(1000 * time.Hour))
	if d, err := f.Decision(t.Context(), "ns", "d"); err != nil || d.CallID != "c1" {
		t.Errorf("decision of a trimmed call = %+v, %v; ids are unique for ever", d, err)
	}
}

func testDecisionNamespaces(t *testing.T, f *fixture) {
	f.commit(decide(f.suspended("c1", start.Add(time.Hour)), "d", "a"))
	f.commit(decide(f.suspended("c1", start.Add(time.Hour), func(c *call.Call) { c.Namespace = "other" }), "d", "b"))
	if d, err := f.Decision(t.Context(), "other", "d"); err != nil || d.Content != "b" {
		t.Errorf("Decision = %+v, %v", d, err)
	}
}

func testNotAfter(t *testing.T, f *fixture) {
	expires := start.Add(time.Hour)
	c := f.suspended("c1", expires)
	early := f.get("c1")
	expiry := step(early, call.Cancelled)
	expiry.NotBefore = expires
	if err := f.Commit(t.Context(), expiry); !errors.Is(err, store.ErrTooEarly) {
		t.Fatalf("expiry before its time = %v, want ErrTooEarly", err)
	}
	f.clock.move(time.Hour) // The expiry time itself is already too late.
	late := *c
	if err := f.Commit(t.Context(), decide(&late, "d", "x")); !errors.Is(err, store.ErrExpired) {
		t.Fatalf("decision at the expiry = %v, want ErrExpired", err)
	}
	if _, err := f.Decision(t.Context(), "ns", "d"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a refused decision is stored: %v", err)
	}
	early = f.get("c1")
	expiry = step(early, call.Cancelled)
	expiry.NotBefore = expires
	f.commit(expiry)
}

// testClockNeverBack (P8) checks that a suspension that has expired stays expired, even when the machine's clock is set back.
func testClockNeverBack(t *testing.T, f *fixture) {
	for name, after := range map[string]func(){"running": func() {}, "reopened": f.reopen, "crashed": f.crash} {
		id := "c-" + name
		expires := f.Now().Add(time.Hour)
		c := f.suspended(id, expires)
		late := *c
		f.clock.move(2 * time.Hour)
		if err := f.Commit(t.Context(), decide(&late, "d-"+id, "x")); !errors.Is(err, store.ErrExpired) {
			t.Fatalf("%s: %v, want ErrExpired", name, err)
		}
		before := f.Now()
		f.clock.move(-10 * time.Hour)
		after()
		if now := f.Now(); now < before {
			t.Errorf("%s: the clock ran back from %v to %v", name, before, now)
		}
		if err := f.Commit(t.Context(), decide(c, "d2-"+id, "x")); !errors.Is(err, store.ErrExpired) {
			t.Errorf("%s, after the clock jumped back: %v, want ErrExpired", name, err)
		}
		f.clock.move(10 * time.Hour)
	}
}

// testClockAdvances checks a machine whose clock was ahead and is set back. The store's clock must still advance, so that suspensions expire
// and waiting actions become due.
func testClockAdvances(t *testing.T, f *fixture) {
	for name, after := range map[string]func(){"running": func() {}, "reopened": f.reopen, "crashed": f.crash} {
		f.clock.move(24 * time.Hour)
		c := f.suspended("c-"+name, f.Now().Add(time.Minute))
		f.clock.move(-24 * time.Hour)
		after()
		ahead := f.Now()
		f.clock.move(2 * time.Minute)
		if passed := f.Now().Sub(ahead); passed < 2*time.Minute {
			t.Errorf("%s: %v passed in two minutes", name, passed)
		}
		if err := f.Commit(t.Context(), decide(c, "d-"+name, "x")); !errors.Is(err, store.ErrExpired) {
			t.Errorf("%s: %v, want ErrExpired", name, err)
		}
	}
}

func testDue(t *testing.T, f *fixture) {
	if at, err := f.NextExpiry(t.Context()); err != nil || at != 0 {
		t.Errorf("NextExpiry of nothing = %v, %v", at, err)
	}
	f.suspended("late", start.Add(3*time.Hour))
	soon := f.suspended("soon", start.Add(time.Hour))
	f.suspended("mid", start.Add(2*time.Hour), func(c *call.Call) { c.Namespace = "other" })
	f.suspended("never", 0)
	check := func(next call.Stamp, want ...string) {
		t.Helper()
		if at, err := f.NextExpiry(t.Context()); err != nil || at != next {
			t.Errorf("NextExpiry = %v, %v, want %v", at, err, next)
		}
		names, err := f.DueNamespaces(t.Context())
		if err != nil {
			t.Error(err)
		}
		slices.Sort(names)
		var got []string
		for _, name := range names {
			due, err := f.Due(t.Context(), name, 10)
			if err != nil || len(due) == 0 {
				t.Errorf("Due(%s) = %d calls, %v", name, len(due), err)
			}
			for _, c := range due {
				got = append(got, name+" "+c.ID)
			}
		}
		if !same(got, want) {
			t.Errorf("due are %v, want %v", got, want)
		}
	}
	check(start.Add(time.Hour))
	f.clock.move(2 * time.Hour)
	f.suspended("sooner", start.Add(90*time.Minute))
	check(start.Add(time.Hour), "ns soon", "ns sooner", "other mid")
	if due, err := f.Due(t.Context(), "ns", 1); err != nil || !same(ids(due), []string{"soon"}) {
		t.Errorf("Due(1) = %v, %v", ids(due), err)
	}
	f.step(soon, call.Cancelled)
	check(start.Add(90*time.Minute), "ns sooner", "other mid")
	f.reopen()
	check(start.Add(90*time.Minute), "ns sooner", "other mid")
}

func testCallBySuspension(t *testing.T, f *fixture) {
	c := f.suspended("c1", start.Add(time.Hour))
	find := func(namespace, id, want string) {
		t.Helper()
		got, err := f.CallBySuspension(t.Context(), namespace, id)
		if want == "" {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("CallBySuspension(%s, %s) = %v, want ErrNotFound", namespace, id, err)
			}
		} else if err != nil || got.ID != want {
			t.Errorf("CallBySuspension(%s, %s) = %+v, %v, want %s", namespace, id, got, err, want)
		}
	}
	find("ns", "s-c1", "c1")
	find("other", "s-c1", "")
	find("ns", "s-c2", "")
	f.commit(decide(c, "d", "x"))
	find("ns", "s-c1", "c1") // a closed suspension
	f.commit(suspend(c, "s-second", "input", start.Add(time.Hour)))
	find("ns", "s-second", "c1")
	find("ns", "s-c1", "c1")
	page, err := f.Calls(t.Context(), call.Query{Namespace: "ns", Action: "input"})
	if err != nil || !same(ids(page.Calls), []string{"c1"}) {
		t.Errorf("Calls(action input) = %v, %v", ids(page.Calls), err)
	}
	page, err = f.Calls(t.Context(), call.Query{Namespace: "ns", Action: "approval"}) // The suspension with this action is closed, so no call matches.
	if err != nil || len(page.Calls) != 0 {
		t.Errorf("Calls(action approval) = %v, %v", ids(page.Calls), err)
	}
}

func ids(calls []*call.Call) []string {
	var ids []string
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	return ids
}
