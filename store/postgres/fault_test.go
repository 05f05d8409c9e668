package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
	"github.com/toold-dev/toold/store/postgres/pgtest"
)

func newCall(id string) *call.Call {
	return &call.Call{Namespace: "ns", ID: id, Tool: "noop", Requested: `{"a":1}`, Effective: `{"a":1}`, RequestDigest: "d", Class: call.Sync,
		Status: call.New, Executed: call.NotStarted, Revision: 1, LastSequence: 1}
}

func creation(c *call.Call) *store.Change {
	as := *c
	return &store.Change{Call: &as, Create: true, Events: []call.Event{{Sequence: 1, Type: call.EventAccepted}}}
}

// step returns the next change of c, with one event.
func step(c *call.Call, to call.Status) *store.Change {
	c.Status = to
	c.Revision++
	c.LastSequence++
	as := *c
	return &store.Change{Call: &as, Events: []call.Event{{Sequence: c.LastSequence, Type: call.EventProgress}}}
}

func key(id string) call.Key { return call.Key{Namespace: "ns", ID: id} }

// run executes statements as the role that owns the store.
func run(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, text := range statements {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// write makes calls from several goroutines and takes each through three steps. It returns how many steps were acknowledged.
func write(t *testing.T, s *postgres.Store, calls int) int {
	t.Helper()
	var wg sync.WaitGroup
	var done atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for i := range calls {
				c := newCall(fmt.Sprintf("c-%d-%d", w, i))
				for _, change := range []func() *store.Change{
					func() *store.Change { return creation(c) },
					func() *store.Change { return step(c, call.Running) },
					func() *store.Change { return step(c, call.Succeeded) },
				} {
					if err := s.Commit(t.Context(), change()); err != nil {
						t.Errorf("%s at revision %d: %v", c.ID, c.Revision, err)
						return
					}
					done.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return int(done.Load())
}

// wantWritten checks that the store has every step that write made, and that the feed has each event once.
func wantWritten(t *testing.T, s *postgres.Store, calls int) {
	t.Helper()
	for w := range 8 {
		for i := range calls {
			c, err := s.Call(t.Context(), key(fmt.Sprintf("c-%d-%d", w, i)))
			if err != nil || c.Revision != 3 || c.Status != call.Succeeded {
				t.Fatalf("call %d of %d: %+v, %v", i, w, c, err)
			}
		}
	}
	seen := map[string]int64{}
	for after := int64(0); ; {
		entries, newest, err := s.Feed(t.Context(), store.Feed{Namespace: "ns"}, after, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			for _, ev := range e.Events {
				if seen[e.Key.ID]++; ev.Sequence != seen[e.Key.ID] {
					t.Fatalf("%s: event %d comes as number %d", e.Key.ID, ev.Sequence, seen[e.Key.ID])
				}
			}
			after = e.Position
		}
		if len(entries) < 100 {
			if after > newest {
				t.Errorf("newest is %d, seen %d", newest, after)
			}
			break
		}
	}
	if len(seen) != 8*calls {
		t.Errorf("%d calls in the feed, want %d", len(seen), 8*calls)
	}
}

// TestT88LostAnswers breaks the connection at three moments: before a group is read, before the group is written, and after COMMIT was
// sent. Each change must be applied once and published once.
func TestT88LostAnswers(t *testing.T) {
	for _, at := range []string{"begin", "write", "commit"} {
		t.Run(at, func(t *testing.T) {
			var n atomic.Int64
			s := open(t, postgres.Config{FailPoint: func(point string) error {
				if point == at && n.Add(1)%3 == 0 {
					return errors.New("connection reset by peer")
				}
				return nil
			}})
			if got := write(t, s, 10); got != 240 {
				t.Fatalf("%d steps acknowledged, want 240", got)
			}
			wantWritten(t, s, 10)
			if lost := n.Load() / 3; lost < 3 {
				t.Errorf("only %d connections were lost", lost)
			}
		})
	}
}

// TestT88TerminatedBackends terminates all connections on the server repeatedly while changes are written and read.
func TestT88TerminatedBackends(t *testing.T) {
	s := open(t, postgres.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var spoiling sync.WaitGroup
	ended := 0
	spoiling.Go(func() {
		for ; ctx.Err() == nil; ended++ {
			if err := server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + pgtest.Role + "'"); err != nil {
				t.Errorf("end the connections: %v", err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50*time.Millisecond + time.Duration(ended)*5*time.Millisecond): // The pauses grow, because the store makes no progress when connections end faster than it can connect.
			}
		}
	})
	if got := write(t, s, 30); got != 720 {
		t.Errorf("%d steps acknowledged, want 720", got)
	}
	wantWritten(t, s, 30)
	cancel()
	spoiling.Wait()
	wantWritten(t, s, 30)
	t.Logf("ran: all connections ended %d times", ended)
}

// TestServer runs tests that break a server. They share one server, and run one after the other.
func TestServer(t *testing.T) {
	own := startOwn(t)
	for _, tt := range []struct {
		name string
		test func(*testing.T, *pgtest.Server)
	}{
		{"restarts", testRestarts}, {"unsafe", testUnsafe}, {"refuses", testRefuses}, {"login", testNoLogin}, {"unknown", testUnknownOutcome},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(t, own) })
	}
}

// testUnknownOutcome checks a group whose outcome cannot be found out. The store must stop, and report that once.
func testUnknownOutcome(t *testing.T, own *pgtest.Server) {
	var failCommit atomic.Bool
	lost := make(chan error, 2)
	s, err := postgres.Open(t.Context(), postgres.Config{
		URL: own.URL("unknown"), Dir: t.TempDir(), Lease: 300 * time.Millisecond, Lost: func(err error) { lost <- err },
		FailPoint: func(point string) error {
			if point == "commit" && failCommit.CompareAndSwap(true, false) {
				return errors.Join(errors.New("connection reset by peer"), own.Stop(syscall.SIGQUIT))
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	failCommit.Store(true)
	if err := s.Commit(t.Context(), creation(newCall("a"))); !errors.Is(err, store.ErrFatal) {
		t.Errorf("Commit = %v, want ErrFatal", err)
	}
	if err := <-lost; !errors.Is(err, store.ErrFatal) {
		t.Errorf("Lost(%v)", err)
	}
	if _, err := s.Call(t.Context(), key("a")); !errors.Is(err, store.ErrFatal) {
		t.Errorf("Call after the end = %v", err)
	}
	select {
	case err := <-lost:
		t.Errorf("Lost again: %v", err)
	default:
	}
}

// testNoLogin loses the answer to COMMIT, and then makes the server refuse the login. The store cannot know whether the change is stored,
// so it must stop with ErrFatal. It must also refuse the next change.
func testNoLogin(t *testing.T, own *pgtest.Server) {
	var cut atomic.Bool
	s, err := postgres.Open(t.Context(), postgres.Config{
		URL: own.URL("login"), Dir: t.TempDir(), Lease: time.Second,
		FailPoint: func(point string) error {
			if point == "commit" && cut.CompareAndSwap(true, false) {
				return errors.Join(errors.New("connection reset by peer"), own.Exec("ALTER ROLE toold NOLOGIN"))
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cut.Store(true)
	if err := s.Commit(t.Context(), creation(newCall("a"))); !errors.Is(err, store.ErrFatal) {
		t.Errorf("Commit = %v, want ErrFatal", err)
	}
	if err := own.Exec("ALTER ROLE toold LOGIN"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), creation(newCall("b"))); err == nil {
		c, err := s.Call(t.Context(), key("b"))
		t.Errorf("the next change is acknowledged; its call is %v, %v", c, err)
	}
}

// testRestarts stops the server during work, once with a clean shutdown and once immediately, and starts it again.
func testRestarts(t *testing.T, own *pgtest.Server) {
	s, err := postgres.Open(t.Context(), postgres.Config{URL: own.URL("restarts"), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var spoiling sync.WaitGroup
	spoiling.Go(func() {
		for _, how := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
			if err := errors.Join(own.Stop(how), own.Resume()); err != nil {
				t.Error(err)
			}
		}
	})
	write(t, s, 40)
	spoiling.Wait()
	cancel()
	wantWritten(t, s, 40)
}

func startOwn(t *testing.T, settings ...string) *pgtest.Server {
	t.Helper()
	own, err := pgtest.Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	})
	return own
}

// testUnsafe checks that the store refuses a server with a setting that can lose acknowledged data. The store must notice this at the start
// and later.
func testUnsafe(t *testing.T, own *pgtest.Server) {
	url, dir := own.URL("unsafe"), t.TempDir()
	for on, off := range map[string]string{
		"ALTER SYSTEM RESET fsync":                      "ALTER SYSTEM SET fsync = off",
		"ALTER SYSTEM RESET full_page_writes":           "ALTER SYSTEM SET full_page_writes = off",
		"ALTER ROLE toold RESET synchronous_commit":     "ALTER ROLE toold SET synchronous_commit = off",
		"ALTER DATABASE toold RESET synchronous_commit": "ALTER DATABASE toold SET synchronous_commit = off",
	} {
		settle := func(statement string) {
			t.Helper()
			if err := own.Exec(statement, "SELECT pg_reload_conf()", "SELECT pg_sleep(0.1)"); err != nil {
				t.Fatal(err)
			}
		}
		settle(off)
		if s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Dir: dir}); !errors.Is(err, postgres.ErrUnsafe) {
			t.Errorf("%s: Open = %v, %v", off, s, err)
		}
		settle(on)
	}
	lost := make(chan error, 1)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Dir: dir, Lost: func(err error) { lost <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := own.Exec("ALTER SYSTEM RESET synchronous_commit", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.1)"); err != nil {
			t.Error(err)
		}
	}()
	if err := own.Exec("ALTER SYSTEM SET synchronous_commit = off", "SELECT pg_reload_conf()", "SELECT pg_sleep(0.1)"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), creation(newCall("b"))); !errors.Is(err, store.ErrFatal) || !errors.Is(err, postgres.ErrUnsafe) {
		t.Errorf("Commit = %v", err)
	}
	<-lost
}

// testRefuses checks that a full disk is reported as ErrFull and is temporary, and that the store waits for a server without free
// connections.
func testRefuses(t *testing.T, own *pgtest.Server) {
	url := own.URL("refuses")
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run(t, url, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`,
		"CREATE TRIGGER full_disk BEFORE INSERT ON calls EXECUTE FUNCTION full_disk()")
	if err := s.Commit(t.Context(), creation(newCall("a"))); !errors.Is(err, store.ErrFull) || !s.Full() {
		t.Errorf("Commit on a full disk = %v, full %t", err, s.Full())
	}
	run(t, url, "DROP TRIGGER full_disk ON calls")
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil || s.Full() {
		t.Errorf("Commit with room = %v, full %t", err, s.Full())
	}
	const cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'toold'"
	for off, on := range map[string]string{
		"ALTER ROLE toold CONNECTION LIMIT 0": "ALTER ROLE toold CONNECTION LIMIT -1",
	} {
		if err := own.Exec(off, cut); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		s.Submit(creation(newCall(off)), func(err error) { done <- err })
		select {
		case err := <-done:
			t.Fatalf("%s: Commit = %v", off, err)
		case <-time.After(100 * time.Millisecond):
		}
		if err := own.Exec(on, cut); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("after %s: Commit = %v", off, err)
		}
		if _, err := s.Call(t.Context(), key(off)); err != nil {
			t.Errorf("after %s: Call = %v", off, err)
		}
	}
}
