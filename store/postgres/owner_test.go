package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/postgres"
)

// standBy opens a store that another one has and returns once it waits. What it opens comes through the channel.
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

// TestOneOwner: a second daemon waits for the first, and for the next one if that was faster; who waits may leave.
func TestOneOwner(t *testing.T) {
	cfg := postgres.Config{URL: freshURL(t)}
	first := open(t, cfg)
	if err := first.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Fatal(err)
	}
	leaving, leave := context.WithCancel(t.Context())
	gone := standBy(leaving, t, cfg)
	next := standBy(t.Context(), t, cfg)
	leave()
	if s := <-gone; s != nil {
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

// A wire passes bytes between a daemon and its server until it is cut: then both sides hear nothing, and nobody closes.
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

// pass copies until an end is closed. What comes over a wire that is cut goes nowhere.
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

// set cuts the wire, or mends it: connections from before stay dead.
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

// TestT89CutOffOwner cuts the wire of a store that works. The server takes the journal from it after its lease, another one
// goes on, and what the first one wrote meanwhile, and writes when the wire is mended, is refused.
func TestT89CutOffOwner(t *testing.T) {
	direct := freshURL(t)
	w := newWire(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", filepath.Dir(w.lis.Addr().String()))
	u.RawQuery = q.Encode()
	lost := make(chan error, 1)
	first := open(t, postgres.Config{URL: u.String(), Lease: 500 * time.Millisecond, Patience: time.Minute, Lost: func(err error) { lost <- err }})
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
