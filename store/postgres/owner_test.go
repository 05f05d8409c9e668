package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
)

// standBy opens a store that another daemon owns. It returns when the opening daemon waits. The channel receives the store when it is open.
func standBy(ctx context.Context, t *testing.T, cfg postgres.Config) <-chan *postgres.Store {
	t.Helper()
	waits, opened := make(chan string, 1), make(chan *postgres.Store, 1)
	cfg.Dir, cfg.Waiting = t.TempDir(), func(holder string) { waits <- holder }
	go func() {
		s, err := postgres.Open(ctx, cfg)
		if err != nil && ctx.Err() == nil {
			t.Errorf("Open = %v", err)
		}
		opened <- s
	}()
	if holder := <-waits; !strings.Contains(holder, "toold ") {
		t.Errorf("the holder is %q", holder)
	}
	return opened
}

// TestOneOwner checks that a second and a third daemon wait for the owner, and that a waiting daemon may stop.
func TestOneOwner(t *testing.T) {
	cfg := postgres.Config{URL: freshURL(t)}
	first := open(t, cfg)
	if err := first.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Fatal(err)
	}
	leaving, leave := context.WithCancel(t.Context())
	cancelled := standBy(leaving, t, cfg)
	next := standBy(t.Context(), t, cfg)
	leave()
	if s := <-cancelled; s != nil {
		t.Error("who left has the store")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := <-next
	if second == nil {
		t.Fatal("nobody has the store")
	}
	defer second.Close()
	if id := second.Identity(); id.Epoch != 2 || !id.Clean {
		t.Errorf("Identity = %+v", id)
	}
	if _, err := second.Call(t.Context(), key("a")); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	open(t, postgres.Config{Dir: dir})
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: freshURL(t), Dir: dir}); !errors.Is(err, postgres.ErrLocked) {
		t.Errorf("Open in a directory in use = %v", err)
	}
}

// A wire is a proxy between a daemon and its server. While it is cut, it drops all bytes but keeps the connections open.
type wire struct {
	lis    net.Listener
	server string

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	all   sync.WaitGroup
}

func newWire(t *testing.T) *wire {
	t.Helper()
	lis, err := net.Listen("unix", filepath.Join(shortDir(t), ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{lis: lis, server: server.Socket()}
	w.all.Go(w.accept)
	t.Cleanup(w.close)
	return w
}

func (w *wire) accept() {
	for {
		near, err := w.lis.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("unix", w.server)
		if err != nil {
			near.Close()
			continue
		}
		w.mu.Lock()
		w.conns = append(w.conns, near, far)
		w.mu.Unlock()
		w.all.Go(func() { w.pass(near, far) })
		w.all.Go(func() { w.pass(far, near) })
	}
}

// pass copies bytes until one side closes. It drops the bytes while the wire is cut.
func (w *wire) pass(to, from net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if w.isCut() {
			if err != nil {
				return
			}
			continue
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				from.Close()
				return
			}
		}
		if err != nil {
			to.Close()
			return
		}
	}
}

func (w *wire) isCut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cut
}

// set cuts or repairs the wire. A repair closes the earlier connections.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if !cut {
		for _, c := range w.conns {
			c.Close()
		}
		w.conns = nil
	}
}

func (w *wire) close() {
	w.lis.Close()
	w.set(false)
	w.all.Wait()
}

// TestT89CutOffOwner cuts the connection of an active owner. The server frees the journal after the session timeout, and another daemon takes it.
// Changes that the first daemon submits meanwhile, or after the connection is repaired, are refused.
func TestT89CutOffOwner(t *testing.T) {
	direct := freshURL(t)
	w := newWire(t)
	lost := make(chan error, 1)
	first := open(t, postgres.Config{URL: w.through(t, direct), SessionTimeout: 500 * time.Millisecond, Lease: time.Minute, Lost: func(err error) { lost <- err }})
	c := newCall("a")
	for _, change := range []*store.Change{creation(c), step(c, call.Running)} {
		if err := first.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	waiting := standBy(t.Context(), t, postgres.Config{URL: direct})
	w.set(true)
	late := make(chan error, 1)
	result := *c
	first.Submit(step(&result, call.Succeeded), func(err error) { late <- err })
	second := <-waiting
	if second == nil {
		t.Fatal("nobody took over")
	}
	defer second.Close()
	if err := second.Commit(t.Context(), step(c, call.Failed)); err != nil {
		t.Fatal(err)
	}
	w.set(false)
	if err := <-late; !errors.Is(err, store.ErrFatal) {
		t.Errorf("the result of who was cut off = %v, want ErrFatal", err)
	}
	<-lost
	if err := first.Commit(t.Context(), creation(newCall("b"))); !errors.Is(err, store.ErrFatal) {
		t.Errorf("Commit = %v, want ErrFatal", err)
	}
	got, err := second.Call(t.Context(), key("a"))
	if err != nil || got.Status != call.Failed || got.Revision != 3 {
		t.Errorf("the call is %+v, %v", got, err)
	}
	if _, err := second.Call(t.Context(), key("b")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Call = %v", err)
	}
}

// through returns a URL that reaches the server of direct through the wire.
func (w *wire) through(t *testing.T, direct string) string {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", filepath.Dir(w.lis.Addr().String()))
	u.RawQuery = q.Encode()
	return u.String()
}

// TestT126ProofOfOwnership checks that an owner without connection starts no effect once its last proof is old. After a short interruption,
// Own succeeds again. When the last proof is older than the lease, the owner stops.
func TestT126ProofOfOwnership(t *testing.T) {
	t.Parallel()                   // Run in parallel: most of this test is waiting.
	const lease = 15 * time.Second // longer than a busy machine delays a test
	w, direct, lost := newWire(t), freshURL(t), make(chan time.Time, 1)
	s := open(t, postgres.Config{
		URL: w.through(t, direct), Lease: lease, SessionTimeout: 2 * lease, Start: 200 * time.Millisecond,
		Lost: func(error) { lost <- time.Now() },
	})
	if err := s.Own(t.Context()); err != nil {
		t.Fatal(err)
	}
	var now unix.Timespec
	by, err := s.StartBy(t.Context())
	if clock := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil || clock != nil || by <= 0 || by > time.Duration(now.Nano())+200*time.Millisecond {
		t.Errorf("what starts now may start until %v, %v, %v; the time is %v", by, err, clock, time.Duration(now.Nano()))
	}
	w.set(true)
	time.Sleep(200 * time.Millisecond) // Wait until the newest proof is too old.
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Own(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Own without a server = %v, want to wait", err)
	}
	w.set(false)
	if err := s.Own(t.Context()); err != nil {
		t.Errorf("Own when the server is back = %v", err)
	}
	w.set(true)
	cut := time.Now()
	time.Sleep(200 * time.Millisecond)
	if err := s.Own(t.Context()); !errors.Is(err, store.ErrFatal) {
		t.Errorf("Own of an owner that was cut off = %v, want ErrFatal", err)
	}
	if d := (<-lost).Sub(cut); d > 8*lease {
		t.Errorf("the owner ended %v after it was cut off, with a lease of %v", d, lease)
	}
	w.set(false)
}

// TestT126Hold checks the hold after an owner ended uncleanly in another directory. The new owner ignores the old attempts for longer than
// the old owner can act. If the new owner stops during the hold, the next owner holds as well. An owner in the same directory as the
// previous owner need not hold, because that previous owner has ended.
func TestT126Hold(t *testing.T) {
	t.Parallel() // Run in parallel: this test waits for a hold.
	at := freshURL(t)
	begin := func(dir string, lease time.Duration, clean bool) *postgres.Store {
		t.Helper()
		cfg := postgres.Config{URL: at, Dir: dir, Lease: lease, Kill: time.Millisecond, Hold: lease*11/10 + 2*time.Millisecond}
		if !clean {
			cfg.FailPoint = func(point string) error {
				if point == "close" {
					return errKilled
				}
				return nil
			}
		}
		return open(t, cfg)
	}
	const quick, long = 15 * time.Second, 3 * time.Minute
	mine := t.TempDir()
	for _, tt := range []struct {
		dir   string
		lease time.Duration
		clean bool          // the owner ends cleanly
		hold  time.Duration // minimum hold that this owner must report; zero means no hold
	}{
		{t.TempDir(), quick, true, 0},
		{t.TempDir(), long, false, 0},
		{t.TempDir(), quick, false, long}, // The previous owner's lease counts, because it is longer than this owner's.
		{mine, quick, true, quick},        // This owner ends cleanly, but its predecessor may still act.
		{mine, quick, false, quick},
	} {
		began := time.Now()
		s := begin(tt.dir, tt.lease, tt.clean)
		if d := s.Hold(); d > 0 != (tt.hold > 0) || d < tt.hold-time.Since(began) {
			t.Errorf("%+v: the journal is held for %v", tt, d)
		}
		if tt.dir == mine && !tt.clean {
			waitFor(t, at, "SELECT NOT holding FROM meta")
			if d := s.Hold(); d > 0 {
				t.Errorf("the journal says that it is not held, %v too early", d)
			}
		}
		s.Close()
	}
	if d := begin(mine, quick, true).Hold(); d != 0 {
		t.Errorf("the journal is held for %v by who outlived its owner", d)
	}
	_, err := postgres.Open(t.Context(), postgres.Config{URL: at, Dir: t.TempDir(), Lease: time.Second, Kill: time.Second, Hold: 2199 * time.Millisecond})
	if !errors.Is(err, postgres.ErrHold) {
		t.Errorf("Open with a hold that is too short = %v", err)
	}
}

// waitFor returns when the SQL question returns true.
func waitFor(t *testing.T, at, question string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for ok := false; !ok; time.Sleep(5 * time.Millisecond) {
		if err := conn.QueryRow(t.Context(), question).Scan(&ok); err != nil {
			t.Fatal(err)
		}
	}
}

// TestP7OwnerOutlivesItsServer restarts the server, so that owner and standby both lose it. The owner must keep the journal.
func TestP7OwnerOutlivesItsServer(t *testing.T) {
	t.Parallel() // Run in parallel: most of this test is waiting.
	own := startOwn(t)
	cfg := postgres.Config{URL: own.URL("journal"), Start: 50 * time.Millisecond, SessionTimeout: time.Minute}
	owner := open(t, cfg)
	waiting, leave := context.WithCancel(t.Context())
	defer leave()
	opened := standBy(waiting, t, cfg)
	if err := errors.Join(own.Stop(syscall.SIGQUIT), own.Resume()); err != nil {
		t.Fatal(err)
	}
	if err := owner.Commit(t.Context(), creation(newCall("after"))); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Second)                        // In this time the standby checks four times and the owner never.
	if err := owner.Own(t.Context()); err != nil { // The newest proof is from after the restart of the server. It shows that the owner holds the lock.
		t.Error(err)
	}
	leave()
	if s := <-opened; s != nil {
		s.Close()
		t.Error("the daemon that stood by took the journal")
	}
}
