package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/store/sqlite/faultfs"
	"github.com/toold-dev/toold/tool"
)

// points lets a test choose the error at each fail point of a write.
type points struct {
	mu   sync.Mutex
	at   func(point string) error
	seen map[string]int
}

func (p *points) fail(point string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == nil {
		p.seen = map[string]int{}
	}
	p.seen[point]++
	if p.at == nil {
		return nil
	}
	return p.at(point)
}

func (p *points) set(at func(point string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.seen = at, nil
}

func (p *points) count(point string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[point]
}

// TestFatal checks that the store stops after a COMMIT with unknown outcome and after a disk failure. The next daemon then recovers.
func TestFatal(t *testing.T) {
	disk := errors.New("input/output error")
	for _, point := range []string{"commit", "committed"} {
		t.Run(point, func(t *testing.T) {
			var p points
			dir := t.TempDir()
			s := open(t, sqlite.Config{Dir: dir, FailPoint: p.fail})
			if err := s.Commit(t.Context(), creation(newCall("before"))); err != nil {
				t.Fatal(err)
			}
			p.set(func(at string) error {
				if at == point {
					return disk
				}
				return nil
			})
			if err := s.Commit(t.Context(), creation(newCall("a"))); !errors.Is(err, store.ErrFatal) {
				t.Fatalf("Commit = %v, want ErrFatal", err)
			}
			p.set(nil)
			if err := s.Commit(t.Context(), creation(newCall("b"))); !errors.Is(err, store.ErrFatal) {
				t.Errorf("later Commit = %v, want ErrFatal", err)
			}
			if _, err := s.Call(t.Context(), key("before")); !errors.Is(err, store.ErrFatal) {
				t.Errorf("later Call = %v, want ErrFatal", err)
			}
			closeStore(t, s)
			s = open(t, sqlite.Config{Dir: dir})
			if s.Identity().Clean {
				t.Error("the end counts as clean")
			}
			if _, err := s.Call(t.Context(), key("before")); err != nil {
				t.Errorf("acknowledged call after the failure: %v", err)
			}
		})
	}
}

// TestGroupIsTriedAgain checks a group that fails as a whole. Its changes are tried one by one, so that only the change that caused the
// failure fails.
func TestGroupIsTriedAgain(t *testing.T) {
	var p points
	s := open(t, sqlite.Config{Dir: t.TempDir(), FailPoint: p.fail})
	odd := errors.New("odd")
	var wg sync.WaitGroup
	results := make([]error, 10)
	held := hold(t, s, &p, func(point string) error {
		if n := p.seen["write"]; point == "write" && (n == 1 || n == 4) { // This fails the group first, and then its third change alone.
			return odd
		}
		return nil
	})
	for i := range results {
		wg.Add(1)
		s.Submit(creation(newCall(fmt.Sprint("c", i))), func(err error) { results[i] = err; wg.Done() })
	}
	held()
	wg.Wait()
	for i, err := range results {
		if want := i == 2; errors.Is(err, odd) != want || !want && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
		_, err := s.Call(t.Context(), key(fmt.Sprint("c", i)))
		if want := i == 2; errors.Is(err, store.ErrNotFound) != want || !want && err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestCallbacksOnce checks that a change that is tried again calls its callbacks only once. A callback sets values in events, which must
// not change afterwards.
func TestCallbacksOnce(t *testing.T) {
	var p points
	s := open(t, sqlite.Config{Dir: t.TempDir(), FailPoint: p.fail})
	commit(t, s, creation(newCall("a")))
	seven := int64(7)
	conflicts := 0
	change := &store.Change{Key: key("a"), OnDocuments: func(notices []call.DocumentNotice) { conflicts += len(notices) },
		Documents: []store.DocumentChange{{ScopeID: "r", Command: tool.Command{Op: tool.OpSet, Scope: tool.RunScope, Key: "k", Value: "1", Expected: &seven}}}}
	var wg sync.WaitGroup
	wg.Add(2)
	release := hold(t, s, &p, func(point string) error {
		if point == "write" && p.seen["write"] == 1 {
			return errors.New("odd")
		}
		return nil
	})
	for _, c := range []*store.Change{creation(newCall("b")), change} {
		s.Submit(c, func(err error) {
			if err != nil {
				t.Error(err)
			}
			wg.Done()
		})
	}
	release()
	wg.Wait()
	if conflicts != 1 {
		t.Errorf("OnDocuments reported %d conflicts, want one", conflicts)
	}
}

// hold blocks the writer until the test invokes release. After that, next decides the error at each point.
func hold(t *testing.T, s *sqlite.Store, p *points, next func(string) error) (release func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	s.Submit(creation(newCall(fmt.Sprint("hold", time.Now().UnixNano()))), func(err error) {
		if err != nil {
			t.Error(err)
		}
		close(entered)
		<-leave
	})
	<-entered
	p.set(next)
	return func() { close(leave) }
}

// TestFullChangesComeFirst checks that the waiting changes form one group, in which Full changes come first.
func TestFullChangesComeFirst(t *testing.T) {
	var p points
	s := open(t, sqlite.Config{Dir: t.TempDir(), FailPoint: p.fail})
	release := hold(t, s, &p, nil)
	var mu sync.Mutex
	var order []string
	var wg sync.WaitGroup
	for i := range 200 {
		change := creation(newCall(fmt.Sprint("c", i)))
		name := "full"
		if i%2 == 0 {
			change.Durability, name = store.Normal, "normal"
		}
		wg.Add(1)
		s.Submit(change, func(err error) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			wg.Done()
		})
	}
	release()
	wg.Wait()
	for i, name := range order {
		if want := i < 100; (name == "full") != want {
			t.Fatalf("position %d is %s", i, name)
		}
	}
	if got := p.count("commit"); got != 1 {
		t.Errorf("%d commits, want one", got)
	}
}

// TestFull checks the store on a full disk. It refuses changes, loses nothing, and accepts changes again when there is space.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	var mu sync.Mutex
	s := open(t, sqlite.Config{Dir: dir, MaxBytes: 1 << 20, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(time.Millisecond)
		return now
	}})
	var kept []string
	for i := 0; ; i++ {
		c := newCall(fmt.Sprint("c", i))
		c.Requested = fmt.Sprintf("%020000d", i)
		c.Status, c.Ended = call.Failed, now
		err := s.Commit(t.Context(), creation(c))
		if errors.Is(err, store.ErrFull) {
			break
		}
		if err != nil || i > 1000 {
			t.Fatalf("Commit %d = %v, want ErrFull", i, err)
		}
		kept = append(kept, c.ID)
	}
	if !s.Full() {
		t.Error("Full() is false on a full disk")
	}
	for _, id := range kept {
		if _, err := s.Call(t.Context(), key(id)); err != nil {
			t.Fatalf("acknowledged call %s: %v", id, err)
		}
	}
	if _, err := s.Call(t.Context(), key(fmt.Sprint("c", len(kept)))); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("refused call: %v, want ErrNotFound", err)
	}
	if keys, err := s.Trim(t.Context(), call.StampOf(now.Add(time.Hour)), 0, 0, 20); err != nil || len(keys) != 20 {
		t.Fatalf("Trim = %d, %v", len(keys), err)
	}
	if err := s.Commit(t.Context(), creation(newCall("after"))); err != nil {
		t.Errorf("Commit with room again = %v", err)
	}
	mu.Lock()
	now = now.Add(2 * time.Second)
	mu.Unlock()
	if s.Full() {
		t.Error("Full() stays true with room again")
	}
}

// TestReserve checks the first time that the disk is full. The store releases its reserve, and the same group then succeeds.
func TestReserve(t *testing.T) {
	var p points
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, FailPoint: p.fail})
	reserve := func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "reserve"))
		return err == nil && len(found) == 1
	}
	if !reserve() || s.Full() {
		t.Fatal("no reserve at start")
	}
	p.set(func(point string) error {
		if point == "write" && reserve() {
			return fmt.Errorf("%w: no space left on device", store.ErrFull)
		}
		return nil
	})
	if err := s.Commit(t.Context(), creation(newCall("a"))); err != nil {
		t.Errorf("Commit = %v; the reserve is for this", err)
	}
	if reserve() || !s.Full() {
		t.Error("the reserve is still there")
	}
	p.set(func(point string) error {
		if point == "write" {
			return store.ErrFull
		}
		return nil
	})
	if err := s.Commit(t.Context(), creation(newCall("b"))); !errors.Is(err, store.ErrFull) {
		t.Errorf("Commit without a reserve = %v, want ErrFull", err)
	}
	if _, err := s.Call(t.Context(), key("a")); err != nil {
		t.Errorf("Call on a full disk = %v", err)
	}
}

// TestFullOfOutput checks a disk that output has filled. The store must release its reserve, so that the journal can still commit. Full
// must report true, so that new calls are refused.
func TestFullOfOutput(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	s := open(t, sqlite.Config{Dir: dir, Now: func() time.Time { return now }})
	write := func() error {
		_, err := s.Spool().Append(key("c"), "", "stdout", []byte("x"))
		return err
	}
	if err := write(); err != nil || s.Full() {
		t.Fatalf("Append = %v, Full() = %t", err, s.Full())
	}
	s.Spool().Release(key("c"))
	streams, err := filepath.Glob(filepath.Join(dir, "spool", "??", "*", "*"))
	if err != nil || len(streams) != 2 {
		t.Fatalf("spool has %v, %v", streams, err)
	}
	for _, path := range streams {
		if filepath.Base(path) != "call" {
			if err := errors.Join(os.Remove(path), os.Symlink("/dev/full", path)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := write(); !errors.Is(err, store.ErrFull) || !s.Full() {
		t.Errorf("Append = %v, Full() = %t, want the disk to be full", err, s.Full())
	}
	if _, err := os.Stat(filepath.Join(dir, "reserve")); err == nil {
		t.Error("the reserve is still there")
	}
	if err := s.Commit(t.Context(), creation(newCall("c"))); err != nil {
		t.Errorf("Commit = %v", err)
	}
}

// TestP7OpensOnAFullDisk (P7) checks that a journal can be opened on a full disk. Open first releases the reserve. If that is not enough,
// the journal is read-only until there is space.
func TestP7OpensOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	var full, reserved atomic.Bool
	disk, err := faultfs.New(faultfs.Config{Dir: dir, SkipSync: true, Fail: func(op faultfs.Op) faultfs.Fault {
		_, err := os.Stat(filepath.Join(dir, "reserve"))
		if full.Load() && (op.Kind == faultfs.Write || op.Kind == faultfs.Create) && (err == nil || !reserved.Load()) {
			return faultfs.NoSpace
		}
		return faultfs.None
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	s := open(t, sqlite.Config{Dir: dir})
	commit(t, s, creation(newCall("before")))
	closeStore(t, s)

	full.Store(true)
	reserved.Store(true)
	_ = open(t, sqlite.Config{Dir: dir}).Close() // The epoch could be stored, but there is no space for the mark of a clean end.
	s = open(t, sqlite.Config{Dir: dir})
	if s.Identity().Epoch != 3 {
		t.Errorf("epoch %d", s.Identity().Epoch)
	}
	commit(t, s, creation(newCall("from the reserve")))
	full.Store(false)
	closeStore(t, s)

	full.Store(true)
	reserved.Store(false)
	for range 2 { // A start that could store nothing must leave no trace: the second start must behave like the first.
		s = open(t, sqlite.Config{Dir: dir})
		if _, err := s.Call(t.Context(), key("before")); err != nil {
			t.Errorf("read: %v", err)
		}
		for range 2 {
			if err := s.Commit(t.Context(), creation(newCall("later"))); !errors.Is(err, store.ErrFull) {
				t.Errorf("Commit = %v, want ErrFull", err)
			}
		}
		closeStore(t, s)
	}
	s = open(t, sqlite.Config{Dir: dir})
	if !s.Full() {
		t.Error("a journal that does not have its epoch takes new calls: their events may be published before they are stored")
	}
	full.Store(false)
	commit(t, s, creation(newCall("later")))
	if s.Identity().Epoch != 4 {
		t.Errorf("epoch %d", s.Identity().Epoch)
	}
	closeStore(t, s)
	if s = open(t, sqlite.Config{Dir: dir}); s.Identity().Epoch != 5 {
		t.Errorf("epoch %d behind one that began late", s.Identity().Epoch)
	}
	closeStore(t, s)

	full.Store(true)
	s = open(t, sqlite.Config{Dir: dir})
	full.Store(false)
	for began := time.Now(); s.Full(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("a journal with space takes no new calls")
		}
	}
	closeStore(t, s)
	if s = open(t, sqlite.Config{Dir: dir}); s.Identity().Epoch != 7 {
		t.Errorf("epoch %d behind one that a question for space began", s.Identity().Epoch)
	}
}

// TestTrimDoesNotBlockChanges checks that Trim scans the documents in parts, so that a change waits for one part only.
func TestTrimDoesNotBlockChanges(t *testing.T) {
	var p points
	s := open(t, sqlite.Config{Dir: t.TempDir(), FailPoint: p.fail})
	c := creation(newCall("a"))
	for i := range 600 {
		c.Documents = append(c.Documents, store.DocumentChange{
			ScopeID: fmt.Sprintf("r%03d", i), Command: tool.Command{Op: tool.OpSet, Scope: tool.RunScope, Key: "k", Value: "1"},
		})
	}
	commit(t, s, c)
	before := p.count("committed")
	if _, err := s.Trim(t.Context(), 0, 0, 0, 10); err != nil {
		t.Fatal(err)
	}
	if n := p.count("committed") - before; n < 4 {
		t.Errorf("600 documents were looked at in %d transactions", n)
	}
}
