package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

// populate makes two calls, "broken" and "sound", each with rows of every kind.
func populate(t *testing.T, dir string) {
	t.Helper()
	s := open(t, sqlite.Config{Dir: dir})
	for _, id := range []string{"broken", "sound"} {
		c := newCall(id)
		c.Run.ID = "run-" + id
		commit(t, s, creation(c))
		next := func(to call.Status) *store.Change {
			c.Revision++
			c.LastSequence++
			c.Status = to
			return &store.Change{Call: c, Events: []call.Event{{Sequence: c.LastSequence, Type: call.EventStatusChanged, Status: to}}}
		}
		c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s-" + id, Action: "approval", ExpiresAt: s.Now().Add(-time.Hour)}}}
		commit(t, s, next(call.Suspended))
		change := next(call.Resuming)
		change.Decision = &store.Decision{Namespace: "ns", ID: "d-" + id, CallID: id, SuspensionID: "s-" + id, Decision: tool.Decision{ID: "d-" + id}}
		change.Documents = []store.DocumentChange{{ScopeID: "run-" + id, Command: tool.Command{Op: tool.OpSet, Scope: tool.RunScope, Key: "k", Value: `"value"`}}}
		change.Records = []store.Record{{Kind: "kind-" + id, Key: "k", Bytes: []byte("bytes")}}
		change.Policies = []store.Policy{{Namespace: "ns", Kind: "rule", Key: id, Scope: tool.NamespaceScope, Value: []byte("value")}}
		commit(t, s, change)
	}
	closeStore(t, s)
}

func commit(t *testing.T, s *sqlite.Store, c *store.Change) {
	t.Helper()
	if err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// read reads each kind of row of a call, and returns the error for each kind.
func read(t *testing.T, s *sqlite.Store, id string) map[string]error {
	_, callErr := s.Call(t.Context(), key(id))
	_, byErr := s.CallBySuspension(t.Context(), "ns", "s-"+id)
	first, _, firstErr := s.Events(t.Context(), key(id), 0, 1)
	if firstErr == nil && (len(first) != 1 || first[0].Sequence != 1) {
		firstErr = fmt.Errorf("events %+v", first)
	}
	_, _, restErr := s.Events(t.Context(), key(id), 1, 1)
	_, decisionErr := s.Decision(t.Context(), "ns", "d-"+id)
	_, documentErr := s.Documents(t.Context(), "ns", store.DocumentScope{Scope: tool.RunScope, ID: "run-" + id})
	_, recordErr := s.Records(t.Context(), "ns", "kind-"+id, 0, 10)
	policyErr := errors.New("no policy")
	if err := s.Policies(t.Context(), func(p store.Policy, err error) error {
		if p.Key == id {
			policyErr = err
		}
		return nil
	}); err != nil {
		policyErr = err
	}
	return map[string]error{"call": callErr, "suspension": byErr, "first": firstErr, "rest": restErr, "decision": decisionErr, "document": documentErr, "record": recordErr, "policy": policyErr}
}

// TestFlippedBits (P9) checks that a row with a flipped bit is refused, and that all other rows can still be read.
func TestFlippedBits(t *testing.T) {
	flip := func(column string) string { // replaces the fifth byte of a value with X
		return fmt.Sprintf("%[1]s = CAST(substr(%[1]s, 1, 4) || 'X' || substr(%[1]s, 6) AS BLOB)", column)
	}
	tests := []struct {
		name, script string
		broken       []string
	}{
		{"record", "UPDATE calls SET " + flip("record") + " WHERE call_id = 'broken'", []string{"call", "suspension"}},
		{"status", "UPDATE calls SET status = 'SUCCEEDED' WHERE call_id = 'broken'", []string{"call", "suspension"}},
		{"revision", "UPDATE calls SET revision = revision + 64 WHERE call_id = 'broken'", []string{"call", "suspension"}},
		{"a record in another's row", "UPDATE calls SET record = (SELECT record FROM calls WHERE call_id = 'sound') WHERE call_id = 'broken'", []string{"call", "suspension"}},
		{"first events", "UPDATE calls SET " + flip("events") + " WHERE call_id = 'broken'", []string{"first"}},
		{"later events", "UPDATE events SET " + flip("events") + " WHERE call = (SELECT position FROM calls WHERE call_id = 'broken')", []string{"rest"}},
		{"decision", "UPDATE decisions SET " + flip("decision") + " WHERE id = 'd-broken'", []string{"decision"}},
		{"document", "UPDATE documents SET value = '\"valve\"' WHERE scope_id = 'run-broken'", []string{"document"}},
		{"policy", "UPDATE policies SET value = CAST('valve' AS BLOB) WHERE key = 'broken'", []string{"policy"}},
		{"plugin record", "UPDATE records SET bytes = CAST('bites' AS BLOB) WHERE kind = 'kind-broken'", []string{"record"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			populate(t, dir)
			script(t, dir, tt.script)
			s := open(t, sqlite.Config{Dir: dir})
			broken := map[string]bool{}
			for _, b := range tt.broken {
				broken[b] = true
			}
			for kind, err := range read(t, s, "broken") {
				if errors.Is(err, store.ErrCorrupt) != broken[kind] || !broken[kind] && err != nil {
					t.Errorf("%s of the broken call: %v", kind, err)
				}
			}
			for kind, err := range read(t, s, "sound") {
				if err != nil {
					t.Errorf("%s of the sound call: %v", kind, err)
				}
			}
			checkLists(t, s, broken["call"])
		})
	}
}

// checkLists checks that reads of many calls name the broken call and still return the others.
func checkLists(t *testing.T, s *sqlite.Store, broken bool) {
	t.Helper()
	for _, limit := range []int{1, 50} {
		var calls, corrupt int
		for q := (call.Query{Namespace: "ns", Limit: limit}); ; {
			page, err := s.Calls(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			calls, corrupt = calls+len(page.Calls), corrupt+len(page.Corrupt)
			if q.After = page.Next; q.After == 0 {
				break
			}
		}
		if broken && (calls != 1 || corrupt != 1) || !broken && calls != 2 {
			t.Errorf("Calls by %d: %d calls and %d corrupt", limit, calls, corrupt)
		}
	}
	var refused []string
	err := s.Unfinished(t.Context(), func(key call.Key, c *call.Call, err error) error {
		if err != nil {
			refused = append(refused, key.ID)
			if !errors.Is(err, store.ErrCorrupt) || c != nil {
				t.Errorf("visit(%v, %v, %v)", key, c, err)
			}
		}
		return nil
	})
	if err != nil || len(refused) > 1 || !broken && len(refused) != 0 {
		t.Errorf("Unfinished refused %v, %v", refused, err)
	}
	sound := false
	for after := int64(0); ; {
		entries, newest, err := s.Feed(t.Context(), store.Feed{Namespace: "ns"}, after, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			break
		}
		if after = entries[0].Position; after > newest {
			t.Fatalf("position %d beyond %d", after, newest)
		}
		sound = entries[0].Key.ID == "sound"
	}
	if !sound {
		t.Error("the feed stops at the broken events")
	}
}

// TestDueBehindBroken checks that broken calls that are due do not hide other calls that are due.
func TestDueBehindBroken(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	for i := range 5 {
		c := newCall(fmt.Sprint("c", i))
		c.Status = call.Suspended
		c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s" + c.ID, ExpiresAt: call.Stamp(i + 1)}}}
		commit(t, s, creation(c))
	}
	closeStore(t, s)
	script(t, dir, "UPDATE calls SET crc = crc + 1 WHERE call_id < 'c3'")
	s = open(t, sqlite.Config{Dir: dir})
	for _, limit := range []int{1, 2, 10} {
		due, err := s.Due(t.Context(), "ns", limit)
		if want := min(limit, 2); err != nil || len(due) != want || due[0].ID != "c3" {
			t.Errorf("Due(%d) = %d calls, %v, want %d from c3", limit, len(due), err, want)
		}
	}
}

// TestRandomBits flips random bits of the database file. A read must return the written data or an error, and never other data.
func TestRandomBits(t *testing.T) {
	origin := t.TempDir()
	populate(t, origin)
	image, err := os.ReadFile(filepath.Join(origin, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, sqlite.Config{Dir: origin})
	want, err := s.Call(t.Context(), key("sound"))
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	flips := 50
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		flips = 1000
	}
	for range flips {
		bad := append([]byte(nil), image...)
		bit := random.IntN(len(bad) * 8)
		bad[bit/8] ^= 1 << (bit % 8)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "journal.db"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			refused++
			continue
		}
		got, err := s.Call(t.Context(), key("sound"))
		if err == nil && (got.Requested != want.Requested || got.Status != want.Status || got.Revision != want.Revision || len(got.Rounds) != 1 || got.Rounds[0].Suspension.ID != "s-sound") {
			t.Errorf("seed %d, bit %d: read %+v", seed, bit, got)
		}
		for kind, err := range read(t, s, "broken") {
			if err != nil && !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNotFound) {
				t.Logf("seed %d, bit %d: %s: %v", seed, bit, kind, err)
			}
		}
		if err := s.Close(); err != nil {
			refused++
		}
	}
	t.Logf("%d of %d were refused as a whole", refused, flips)
}

// TestP4FeedNamesDamagedRows (P4, P9) checks that the feed of a namespace reports each row of events that it cannot read, and continues
// after it.
func TestP4FeedNamesDamagedRows(t *testing.T) {
	const zero = "%[1]s = zeroblob(length(%[1]s))"
	tests := []struct {
		name, script string
		corrupt      int
		last         int64
	}{
		{"sound", "SELECT 1", 0, 0},
		{"first events", "UPDATE calls SET " + fmt.Sprintf(zero, "events") + " WHERE call_id = 'broken'", 1, 1},
		{"later events", "UPDATE events SET " + fmt.Sprintf(zero, "events") + " WHERE last = 3 AND call = (SELECT position FROM calls WHERE call_id = 'broken')", 1, 3},
		{"a pack", "UPDATE packs SET " + fmt.Sprintf(zero, "members"), 3, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			populate(t, dir)
			s := open(t, sqlite.Config{Dir: dir})
			commitPack(t, s, func(*call.Call) {}, "packed-1", "packed-2", "packed-3")
			closeStore(t, s)
			script(t, dir, tt.script)
			s = open(t, sqlite.Config{Dir: dir})
			entries, newest, err := s.Feed(t.Context(), store.Feed{Namespace: "ns"}, 0, 100)
			if err != nil || len(entries) != 9 || entries[8].Position != newest {
				t.Fatalf("%d entries up to %d: %+v, %v", len(entries), newest, entries, err)
			}
			corrupt := 0
			for _, e := range entries {
				if !e.Corrupt {
					continue
				}
				corrupt++
				if e.Last != tt.last || len(e.Events) > 0 || e.Key.Namespace != "ns" || e.Key.ID == "" || e.Key.ID == "sound" {
					t.Errorf("entry %+v", e)
				}
			}
			if corrupt != tt.corrupt {
				t.Errorf("%d corrupt entries", corrupt)
			}
		})
	}
}

// TestP4NarrowFeedsNameDamagedRows (P4, P9) checks the feeds of a run, a thread and a caller. Each feed reports all of its damaged calls,
// also those in packs, and no damaged call that is outside the feed. Many calls outside the feed are stored in between.
func TestP4NarrowFeedsNameDamagedRows(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	mine := func(c *call.Call) {
		c.Run, c.Caller = tool.Run{ID: "run-mine", Thread: "thread-mine"}, tool.Principal{Subject: "me"}
	}
	row := newCall("row")
	mine(row)
	commit(t, s, creation(row))
	row.Revision, row.LastSequence, row.Status = 2, 2, call.Running
	commit(t, s, &store.Change{Call: row, Events: []call.Event{{Sequence: 2, Type: call.EventAttemptStarted, Attempt: 1}}})
	others := make([]string, 600) // These are more calls than the feed scans before it uses an index.
	for i := range others {
		others[i] = fmt.Sprint("other-", i)
	}
	commitPack(t, s, func(c *call.Call) { c.Caller.Subject = "other" }, others...)
	commitPack(t, s, mine, "packed-1", "packed-2", "packed-3")
	feed := func(f store.Feed) (text string, corrupt int) {
		f.Namespace = "ns"
		list, _, err := s.Feed(t.Context(), f, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			text += fmt.Sprintln(e.Position, e.Key.ID)
			if e.Corrupt {
				corrupt++
			} else if len(e.Events) != 1 {
				t.Errorf("entry %+v", e)
			}
		}
		return text, corrupt
	}
	narrow := []store.Feed{{Run: "run-mine"}, {Thread: "thread-mine"}, {Caller: "me"}, {Run: "run-mine", Caller: "me"}, {Thread: "thread-mine", Caller: "me"}}
	want, _ := feed(narrow[0])
	if n := strings.Count(want, "\n"); n != 5 {
		t.Fatalf("%d entries:\n%s", n, want)
	}
	theirs, _ := feed(store.Feed{Caller: "other"})
	damage := func(name, table, column, where string, least int, change func([]byte)) {
		closeStore(t, s)
		conn, err := zombie.OpenConn(filepath.Join(dir, "journal.db"), zombie.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		var whole []byte
		err = sqlitex.ExecuteTransient(conn, "SELECT "+column+" FROM "+table+" WHERE "+where, &sqlitex.ExecOptions{ResultFunc: func(st *zombie.Stmt) error {
			whole = make([]byte, st.ColumnLen(0))
			st.ColumnBytes(0, whole)
			return nil
		}})
		put := func(b []byte) {
			if err == nil {
				err = sqlitex.ExecuteTransient(conn, "UPDATE "+table+" SET "+column+" = ? WHERE "+where, &sqlitex.ExecOptions{Args: []any{b}})
			}
			if err != nil || len(whole) == 0 {
				t.Fatalf("%s: %d bytes, %v", name, len(whole), err)
			}
		}
		damaged := bytes.Clone(whole)
		change(damaged)
		put(damaged)
		s = open(t, sqlite.Config{Dir: dir})
		for _, f := range narrow {
			if got, corrupt := feed(f); got != want || corrupt < least {
				t.Errorf("%s: the feed %+v has %d damaged entries of\n%s", name, f, corrupt, got)
			}
		}
		if got, corrupt := feed(store.Feed{Caller: "other"}); got != theirs || corrupt > 0 {
			t.Errorf("%s: the feed of another has %d damaged entries", name, corrupt)
		}
		put(whole)
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(at func(n int) int) func([]byte) {
		return func(b []byte) { b[at(len(b))] ^= 4 }
	}
	middle := func(n int) int { return n / 2 }
	damage("first events", "calls", "events", "call_id = 'row'", 1, flip(middle))
	damage("later events", "events", "events", "last = 2", 1, flip(middle))
	const pack = "position = (SELECT max(position) FROM packs)"
	damage("a pack of zeros", "packs", "members", pack, 1, func(b []byte) { clear(b) })
	for i := range 8 { // A flipped bit in a record does not damage the events.
		damage(fmt.Sprint("a bit of a pack at ", i, "/8"), "packs", "members", pack, 0, flip(func(n int) int { return n * i / 8 }))
	}
}

// TestT130ListsOfCallersNameNoOthersDamagedRows (T130) checks that the list of a caller does not name damaged calls of other callers, even
// when they are in the same run, thread and pack.
func TestT130ListsOfCallersNameNoOthersDamagedRows(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	made := 0
	commitPack(t, s, func(c *call.Call) {
		c.Run, c.Caller.Subject = tool.Run{ID: "run", Thread: "thread"}, []string{"me", "other"}[made%2]
		made++
	}, "packed-1", "packed-2", "packed-3", "packed-4")
	closeStore(t, s)
	conn, err := zombie.OpenConn(filepath.Join(dir, "journal.db"), zombie.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	err = sqlitex.ExecuteScript(conn, "UPDATE packs SET members = zeroblob(length(members)); UPDATE calls SET record = zeroblob(length(record));", nil)
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, sqlite.Config{Dir: dir})
	for _, tt := range []struct {
		q    call.Query
		want int
	}{
		{call.Query{Run: "run"}, 4}, {call.Query{Thread: "thread"}, 4}, {call.Query{Run: "run", Statuses: []call.Status{call.Succeeded}}, 4},
		{call.Query{Caller: "me"}, 2}, {call.Query{Run: "run", Caller: "me"}, 2}, {call.Query{Thread: "thread", Caller: "other"}, 2},
		{call.Query{Run: "run", Caller: "mallory"}, 0}, {call.Query{Run: "another", Thread: "thread"}, 0},
		{call.Query{Run: "run", Statuses: []call.Status{call.Failed}}, 0}, {call.Query{Run: "run", Action: "approval"}, 0},
	} {
		tt.q.Namespace = "ns"
		page, err := s.Calls(t.Context(), tt.q)
		if err != nil || len(page.Corrupt) != tt.want || len(page.Calls) != 0 {
			t.Errorf("%+v: %v, %v, want %d", tt.q, page.Corrupt, err, tt.want)
		}
	}
}

// commitPack commits read-only calls that are created in their final state. They form one group; on a busy machine they may form a few.
func commitPack(t *testing.T, s *sqlite.Store, set func(*call.Call), ids ...string) {
	t.Helper()
	var all sync.WaitGroup
	for _, id := range ids {
		c := newCall(id)
		set(c)
		c.Class, c.Status, c.Executed, c.LastSequence = call.Behind, call.Succeeded, call.Finished, 1
		all.Add(1)
		s.Submit(&store.Change{Call: c, Create: true, Durability: store.Normal, Events: []call.Event{{Sequence: 1, Type: call.EventAccepted}}}, func(err error) {
			defer all.Done()
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestP9FlippedVersion (P9) checks that Open refuses a journal with a flipped bit in user_version, the header field with the schema
// version.
func TestP9FlippedVersion(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, sqlite.Config{Dir: dir}))
	path := filepath.Join(dir, "journal.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 32 {
		const at = 60 // offset of user_version in the header
		damaged := bytes.Clone(whole)
		damaged[at+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, sqlite.ErrNewer) {
			t.Errorf("bit %d: Open = %v, %v", bit, s, err)
		}
	}
}
