package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/tool"
)

// TestFlippedBits (P9) checks that a damaged row is refused, and that all other rows can still be read.
func TestFlippedBits(t *testing.T) {
	url := freshURL(t)
	s := open(t, postgres.Config{URL: url})
	fill(t, s)
	c := newCall("long")
	c.Run, c.Caller = tool.Run{ID: "run-long", Thread: "thread-long"}, tool.Principal{Subject: "me"}
	for _, change := range []*store.Change{creation(c), step(c, call.Running), step(c, call.Succeeded)} {
		if err := s.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	const flip = "UPDATE %[1]s SET %[2]s = set_byte(%[2]s, length(%[2]s) / 2, get_byte(%[2]s, length(%[2]s) / 2) # 4) WHERE %[3]s"
	run(t, url, fmt.Sprintf(flip, "calls", "record", "call_id = 'packed-07'"), fmt.Sprintf(flip, "calls", "events", "call_id = 'packed-09'"),
		fmt.Sprintf(flip, "events", "events", "last = 3"), fmt.Sprintf(flip, "decisions", "decision", "true"),
		fmt.Sprintf(flip, "documents", "value", "key = 'todo'"), fmt.Sprintf(flip, "policies", "value", "true"), fmt.Sprintf(flip, "records", "bytes", "key = 'k'"))
	ctx := t.Context()
	for what, check := range map[string]func() error{
		"call":      func() error { _, err := s.Call(ctx, key("packed-07")); return err },
		"first log": func() error { _, _, err := s.Events(ctx, key("packed-09"), 0, 10); return err },
		"later log": func() error { _, _, err := s.Events(ctx, key("long"), 2, 10); return err },
		"decision":  func() error { _, err := s.Decision(ctx, "ns", "d"); return err },
		"documents": func() error {
			_, err := s.Documents(ctx, "ns", store.DocumentScope{Scope: tool.ThreadScope, ID: "thread"})
			return err
		},
		"policy":  func() error { return s.Policies(ctx, func(_ store.Policy, err error) error { return err }) },
		"records": func() error { _, err := s.Records(ctx, "ns", "audit", 0, 10); return err },
	} {
		if err := check(); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s = %v, want ErrCorrupt", what, err)
		}
	}
	if events, _, err := s.Events(ctx, key("long"), 0, 10); err != nil || len(events) != 2 {
		t.Errorf("what is before a broken chunk: %d events, %v", len(events), err)
	}
	for f, want := range map[store.Feed]string{
		{Namespace: "ns"}:                                "map[long:3 packed-09:1]",
		{Namespace: "ns", Run: "packed"}:                 "map[packed-09:1]",
		{Namespace: "ns", Run: "run-long"}:               "map[long:3]",
		{Namespace: "ns", Thread: "thread-long"}:         "map[long:3]",
		{Namespace: "ns", Caller: "me"}:                  "map[long:3]",
		{Namespace: "ns", Run: "run-long", Caller: "me"}: "map[long:3]",
	} {
		entries, _, err := s.Feed(ctx, f, 0, 1000)
		damaged := map[string]int64{}
		for _, e := range entries {
			if e.Corrupt {
				damaged[e.Key.ID] = e.Last
			}
		}
		if fmt.Sprint(damaged) != want || err != nil {
			t.Errorf("damaged rows of the feed %+v: %v, %v; want %s", f, damaged, err, want)
		}
	}
	page, err := s.Calls(ctx, call.Query{Namespace: "ns", Run: "packed", Limit: 100})
	if err != nil || len(page.Calls) != 39 || len(page.Corrupt) != 1 || page.Corrupt[0] != key("packed-07") {
		t.Errorf("page: %d calls, corrupt %v, %v", len(page.Calls), page.Corrupt, err)
	}
	replace := newCall("replaces")
	change := creation(replace)
	change.Documents = []store.DocumentChange{{ScopeID: "thread", Command: tool.Command{Op: tool.OpSet, Scope: tool.ThreadScope, Key: "todo", Value: "2"}}}
	if err := s.Commit(ctx, change); err != nil {
		t.Fatal(err)
	}
	docs, err := s.Documents(ctx, "ns", store.DocumentScope{Scope: tool.ThreadScope, ID: "thread"})
	if err != nil || len(docs) != 1 || docs[0].Value != "2" || docs[0].Revision != 2 {
		t.Errorf("documents after the broken one was replaced: %+v, %v", docs, err)
	}
}

// TestRefusesOtherSchemas checks that Open refuses a schema that is no journal. It also checks that CheckURL refuses a URL with a password
// or in a wrong form, and that its error does not show the password.
func TestRefusesOtherSchemas(t *testing.T) {
	foreign := freshURL(t)
	schema := schemaOf(foreign)
	run(t, foreign, "CREATE SCHEMA "+schema, "CREATE TABLE "+schema+".customers (id int)")
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: foreign, Dir: t.TempDir()}); !errors.Is(err, postgres.ErrForeign) {
		t.Errorf("Open of a foreign schema = %v", err)
	}
	for url, want := range map[string]error{
		"postgres://toold:secret@host/db":              postgres.ErrPassword,
		"postgres://toold@host/db?password=secret":     postgres.ErrPassword,
		"postgres://toold@host/db?search_path=a,b":     nil,
		"mysql://toold@host/db":                        nil,
		"host=host password=secret":                    nil,
		"postgres://toold@host:port:secret/db":         nil,
		"postgres://toold@host/db?sslmode=sometimes":   nil,
		"postgres://toold@host/db?search_path=%22x%22": nil,
	} {
		if err := postgres.CheckURL(url); err == nil || want != nil && !errors.Is(err, want) || strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "=secret") {
			t.Errorf("CheckURL(%s) = %v", url, err)
		}
	}
}

func schemaOf(url string) string {
	_, name, _ := strings.Cut(url, "search_path=")
	return name
}

// TestT91Migration migrates a journal with calls to a schema of a future release. An interrupted migration changes nothing. After a
// complete migration, the current release refuses the journal. When two daemons start at the same time on a new schema, both open the
// journal, one after the other.
func TestT91Migration(t *testing.T) {
	url := freshURL(t)
	s := open(t, postgres.Config{URL: url})
	fill(t, s)
	want := look(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	later := fstest.MapFS{"schema/0001.sql": {}, "schema/0002.sql": {}, "schema/0003.sql": {}, "schema/0004.sql": {Data: []byte("ALTER TABLE calls ADD COLUMN colour text NOT NULL DEFAULT 'blue'; CREATE TABLE colours (name text)")}}
	cut := errors.New("killed")
	if err := postgres.Migrate(t.Context(), conn, schemaOf(url), later, func(string) error { return cut }); !errors.Is(err, cut) {
		t.Fatalf("Migrate = %v", err)
	}
	again := open(t, postgres.Config{URL: url})
	if diff := diffOf(want, look(t, again)); diff != "" {
		t.Errorf("after a migration that was cut off (-want +got):\n%s", diff)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := postgres.Migrate(t.Context(), conn, schemaOf(url), later, func(string) error { return nil }); err != nil {
			t.Fatalf("Migrate = %v", err)
		}
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: url, Dir: t.TempDir()}); !errors.Is(err, postgres.ErrNewer) {
		t.Errorf("Open of a newer schema = %v", err)
	}
	var blue, all int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FILTER (WHERE colour = 'blue'), count(*) FROM calls").Scan(&blue, &all); err != nil || blue != all || all < 40 {
		t.Errorf("%d of %d calls have the new column, %v", blue, all, err)
	}

	both := freshURL(t)
	opened := make(chan *postgres.Store, 2)
	for range 2 {
		dir := t.TempDir()
		go func() {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: both, Dir: dir})
			if err != nil {
				t.Errorf("one of two = %v", err)
			}
			opened <- s
		}()
	}
	for epoch := range int64(2) {
		if s := <-opened; s != nil {
			if s.Identity().Epoch != epoch+1 {
				t.Errorf("epoch %d, want %d", s.Identity().Epoch, epoch+1)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// FuzzCheckURL checks that an accepted URL contains no password.
func FuzzCheckURL(f *testing.F) {
	for _, text := range []string{"postgres://toold@host/db", "postgres://toold:secret@host/db", "postgresql:///db?host=/run&password=x", "postgres://a,b:1,2/db?search_path=x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if postgres.CheckURL(text) != nil {
			return
		}
		config, err := pgx.ParseConfig(text)
		if err != nil || config.Password != "" && strings.Contains(text, config.Password) && os.Getenv("PGPASSWORD") != config.Password {
			t.Errorf("CheckURL(%q) accepts %v", text, err)
		}
	})
}
