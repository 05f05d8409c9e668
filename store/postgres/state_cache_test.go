package postgres_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
)

// together commits changes in one group: they wait while the store writes the first change.
func together(s *postgres.Store, first *store.Change, changes ...*store.Change) []error {
	errs := make([]error, len(changes))
	begun, there := make(chan struct{}), make(chan struct{})
	s.Submit(first, func(error) { close(begun); <-there })
	<-begun
	var all sync.WaitGroup
	for i, c := range changes {
		all.Add(1)
		s.Submit(c, func(err error) { errs[i] = err; all.Done() })
	}
	close(there)
	all.Wait()
	return errs
}

// TestKnownCalls commits groups that look as if they need no read, but do need one. Each change must get its own result, and the valid
// changes must be stored. The results must be the same with cached calls and after a restart.
func TestKnownCalls(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %t", restarted), func(t *testing.T) {
			cfg := postgres.Config{URL: freshURL(t), Dir: t.TempDir()}
			s := open(t, cfg)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			trimmed, there, moved, stale := newCall("trimmed"), newCall("there"), newCall("moved"), newCall("stale")
			for _, c := range []*call.Call{trimmed, there, moved, stale} {
				must(s.Commit(t.Context(), creation(c)))
			}
			must(s.Commit(t.Context(), step(trimmed, call.Running)))
			must(s.Commit(t.Context(), step(trimmed, call.Succeeded)))
			keys, err := s.Trim(t.Context(), s.Now().Add(time.Hour), 0, 0, 10)
			if err != nil || len(keys) != 1 {
				t.Fatalf("Trim = %v, %v", keys, err)
			}
			must(s.Commit(t.Context(), step(stale, call.Running)))
			must(s.Commit(t.Context(), step(moved, call.Running)))
			if restarted {
				must(s.Close())
				s = open(t, cfg)
			}
			late := *stale
			late.Revision--
			late.LastSequence--
			fresh := newCall("fresh")
			steps := [][]*store.Change{
				{creation(newCall("there")), creation(newCall("x1")), step(moved, call.Running)},
				{creation(newCall("trimmed")), creation(newCall("x2")), step(moved, call.Running)},
				{creation(fresh), creation(newCall("fresh")), step(moved, call.Running)},
				{step(&late, call.Running), creation(newCall("x3")), step(moved, call.Running)},
				{step(fresh, call.Running), step(fresh, call.Succeeded), step(moved, call.Running)},
				{step(fresh, call.Running), creation(newCall("x4")), step(moved, call.Running)},
			}
			wants := [][]error{
				{store.ErrExists, nil, nil}, {store.ErrTrimmed, nil, nil}, {nil, store.ErrExists, nil}, {store.ErrConflict, nil, nil}, {nil, nil, nil}, {store.ErrTransition, nil, nil},
			}
			for i, changes := range steps {
				got := together(s, creation(newCall(fmt.Sprint("first", i))), changes...)
				if !slices.EqualFunc(got, wants[i], errors.Is) {
					t.Errorf("group %d: %v, want %v", i, got, wants[i])
				}
			}
			for id, revision := range map[string]int64{"x1": 1, "x2": 1, "x3": 1, "x4": 1, "fresh": 3, "stale": 2, "moved": moved.Revision} {
				if c, err := s.Call(t.Context(), key(id)); err != nil || c.Revision != revision {
					t.Errorf("%s = %+v, %v; want revision %d", id, c, err, revision)
				}
			}
		})
	}
}

// TestLostEpochWritesNothing checks that a daemon can write nothing after its epoch is over, even for cached calls.
func TestLostEpochWritesNothing(t *testing.T) {
	for _, what := range []string{"epoch", "groups"} {
		t.Run(what, func(t *testing.T) {
			url := freshURL(t)
			s := open(t, postgres.Config{URL: url})
			c := newCall("a")
			if err := s.Commit(t.Context(), creation(c)); err != nil {
				t.Fatal(err)
			}
			run(t, url, "UPDATE meta SET "+what+" = "+what+" + 1")
			if err := s.Commit(t.Context(), step(c, call.Running)); !errors.Is(err, store.ErrFatal) {
				t.Errorf("Commit = %v, want ErrFatal", err)
			}
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			var revision int64
			if err := conn.QueryRow(t.Context(), "SELECT revision FROM calls").Scan(&revision); err != nil || revision != 1 {
				t.Errorf("the call is at revision %d, %v", revision, err)
			}
		})
	}
}

// TestGroupPlans checks that the statements of a group use the right index when they are planned once on empty tables.
func TestGroupPlans(t *testing.T) {
	url := freshURL(t)
	open(t, postgres.Config{URL: url})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, set := range []string{"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off", "SET enable_hashjoin = off", "SET enable_mergejoin = off"} {
		if _, err := conn.Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	for text, indexes := range postgres.GroupStatements {
		described, err := conn.Prepare(t.Context(), "stated", text)
		if err != nil {
			t.Fatal(err)
		}
		nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(described.ParamOIDs)), ", ")
		rows, err := conn.Query(t.Context(), "EXPLAIN EXECUTE stated("+nulls+")", pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if strings.Count(plan, "Index ") != strings.Count(plan, "Index Cond")+len(indexes) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s\n%s", text, plan)
		}
		for _, index := range indexes {
			if !strings.Contains(plan, " "+index+" ") {
				t.Errorf("not by %s: %s\n%s", index, text, plan)
			}
		}
		if err := conn.Deallocate(t.Context(), "stated"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHeapOnlyUpdates checks that the pages of the table calls have enough free space for updates. Updates then need not change the
// indexes. The test has its own server without autovacuum, because PostgreSQL cannot use the space of an old row while any transaction of
// the database may still read it.
func TestHeapOnlyUpdates(t *testing.T) {
	url := startOwn(t, "autovacuum=off").URL("updates")
	s := open(t, postgres.Config{URL: url})
	var calls []*call.Call
	for i := range 200 {
		c := newCall(fmt.Sprint(i))
		c.Effective = `{"text":"` + strings.Repeat("x", 700) + `"}`
		calls = append(calls, c)
	}
	for _, change := range []func(*call.Call) *store.Change{
		creation, func(c *call.Call) *store.Change { return step(c, call.Running) }, func(c *call.Call) *store.Change { return step(c, call.Succeeded) },
	} {
		for _, c := range calls {
			if err := s.Commit(t.Context(), change(c)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil { // The server updates its statistics when a connection ends.
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var updated, hot int
	for until := time.Now().Add(2 * time.Minute); updated < 400 && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		const count = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = current_schema AND relname = 'calls'"
		if err := conn.QueryRow(t.Context(), count).Scan(&updated, &hot); err != nil {
			t.Fatal(err)
		}
	}
	if updated < 400 || hot < updated {
		t.Errorf("%d of %d updates were in the page of their call", hot, updated)
	}
}

// TestTrimmedCallsLeaveNoRows checks that a trimmed call leaves no rows in the tables statuses and ended.
func TestTrimmedCallsLeaveNoRows(t *testing.T) {
	url := freshURL(t)
	s := open(t, postgres.Config{URL: url})
	for _, end := range []call.Status{call.Succeeded, call.Failed} {
		c := newCall(string(end))
		for _, change := range []func() *store.Change{
			func() *store.Change { return creation(c) }, func() *store.Change { return step(c, call.Running) }, func() *store.Change { return step(c, end) },
		} {
			if err := s.Commit(t.Context(), change()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if trimmed, err := s.Trim(t.Context(), s.Now().Add(time.Hour), 0, 0, 10); err != nil || len(trimmed) != 2 {
		t.Fatalf("Trim = %v, %v", trimmed, err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM statuses) + (SELECT count(*) FROM ended)").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}

// TestFeedPlan checks that a feed finds its next entry without reading other calls, also while the server has no statistics.
func TestFeedPlan(t *testing.T) {
	url := freshURL(t)
	s := open(t, postgres.Config{URL: url})
	run(t, url, "ALTER TABLE calls SET (autovacuum_enabled = off)", "ALTER TABLE events SET (autovacuum_enabled = off)")
	write(t, s, 100)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, set := range []string{"SET enable_seqscan = off", "SET enable_hashjoin = off", "SET enable_mergejoin = off"} {
		if _, err := conn.Exec(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	none := []byte{}
	rows, err := conn.Query(t.Context(), "EXPLAIN ANALYZE "+postgres.FeedPage, 1000, 1512, []byte("ns"), none, none, none, 1, none)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	looked := regexp.MustCompile(` on calls.* rows=(\d+) loops=(\d+)\)`)
	scans := 0
	for _, line := range plan {
		if m := looked.FindStringSubmatch(line); m != nil {
			scans++
			if m[1] != "1" && m[1] != "0" || m[2] != "1" {
				t.Errorf("%s rows, %s times, for one entry", m[1], m[2])
			}
		}
	}
	if scans != 2 || t.Failed() {
		t.Errorf("the plan:\n%s", strings.Join(plan, "\n"))
	}
}
