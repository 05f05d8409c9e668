package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
	"github.com/toold-dev/toold/tool"
)

// filesWith returns the files under a directory that contain a text.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if n := bytes.Count(b, []byte(text)); n > 0 {
			found = append(found, fmt.Sprintf("%s (%d times)", filepath.Base(path), n))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

const secret = "plutonium in the left drawer"

// create takes a call through its whole life. Every field that can contain text contains the secret.
func create(t *testing.T, s *sqlite.Store, id string, size int) {
	t.Helper()
	text := strings.Repeat(secret+" ", 1+size/len(secret))
	c := newCall(id)
	c.Requested, c.Effective, c.Run = text, text, tool.Run{ID: "run-" + id, Thread: "thread", Labels: map[string]string{"label": text}}
	commit := func(change *store.Change) {
		t.Helper()
		if err := s.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	next := func(to call.Status) *store.Change {
		c.Revision++
		c.LastSequence++
		c.Status = to
		return &store.Change{Call: c, Events: []call.Event{{Sequence: c.LastSequence, Type: call.EventProgress, Progress: &tool.Progress{Message: text}}}}
	}
	commit(creation(c))
	c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s-" + id, Action: "approval", Message: text, ExpiresAt: s.Now().Add(time.Hour)}}}
	commit(next(call.Suspended))
	decided := next(call.Resuming)
	decided.Decision = &store.Decision{Namespace: "ns", ID: "d-" + id, CallID: id, SuspensionID: "s-" + id, Content: "digest", Decision: tool.Decision{
		ID: "d-" + id, Action: tool.Resume, Arguments: text, Reason: text, DecidedBy: tool.Principal{Subject: "bob"}}}
	commit(decided)
	commit(next(call.Running))
	c.Result = &tool.Result{Status: tool.StatusSuccess, Message: text}
	ended := next(call.Succeeded)
	ended.Records = []store.Record{{Kind: "note", Key: "k", Bytes: []byte(text)}}
	ended.Documents = []store.DocumentChange{{ScopeID: "thread", Command: tool.Command{Op: tool.OpSet, Scope: tool.ThreadScope, Key: secret, Value: text}}}
	ended.Policies = []store.Policy{{Namespace: "ns", Kind: "rule", Key: id, Scope: tool.ThreadScope, ScopeID: "thread", Value: []byte(text)}}
	ended.Run = &store.Run{Namespace: "ns", ID: c.Run.ID, State: call.RunBlocked, Reason: text, CallID: id}
	commit(ended)
}

func purgeAll(t *testing.T, s *sqlite.Store, calls ...string) error {
	t.Helper()
	for _, id := range calls {
		if err := s.Purge(t.Context(), key(id), call.Purge{Time: time.Now()}); err != nil {
			return err
		}
	}
	return s.Shred(t.Context(), store.Shredding{Namespace: "ns", Calls: calls, Threads: []string{"thread"}, PolicyKind: "rule"})
}

// TestPurgeLeavesNothing checks that after a purge no file of the journal contains a purged byte: not in rows, free pages, gaps in pages or
// the write-ahead log. This must hold for rows of any size, and while readers and a writer are active.
func TestPurgeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir})
	var purged []string
	for i := range 24 {
		id := fmt.Sprintf("c%02d", i)
		create(t, s, id, 17<<(i%12))
		purged = append(purged, id)
		if err := s.Commit(t.Context(), creation(newCall("stays"+id))); err != nil {
			t.Fatal(err)
		}
		if i == 12 {
			if err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(filesWith(t, dir, secret)) != 2 {
		t.Fatalf("the journal and its log should hold it: %v", filesWith(t, dir, secret))
	}
	done, stopped := make(chan struct{}), make(chan error, 2)
	for n, f := range []func(i int) error{
		func(i int) error { return s.Commit(t.Context(), creation(newCall(fmt.Sprintf("later%06d", i)))) },
		func(int) error {
			_, err := s.Calls(t.Context(), call.Query{Namespace: "ns", Limit: 1000})
			return err
		},
	} {
		go func() {
			var err error
			for i := n; err == nil; i++ {
				select {
				case <-done:
					stopped <- nil
					return
				default:
					err = f(i)
				}
			}
			stopped <- err
		}()
	}
	err := purgeAll(t, s, purged...)
	close(done)
	if err := errors.Join(err, <-stopped, <-stopped); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, dir, secret); len(found) > 0 {
		t.Errorf("still in %v", found)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, id := range purged {
		if _, err := s.Call(t.Context(), key("stays"+id)); err != nil {
			t.Errorf("another call: %v", err)
		}
		if c, err := s.Call(t.Context(), key(id)); err != nil || c.Purge == nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "journal.db")); err != nil {
		t.Error(err)
	}
	closeStore(t, s)
	if id := open(t, sqlite.Config{Dir: dir}).Identity(); id.Moved || !id.Clean {
		t.Errorf("after a purge the store is %+v", id)
	}
}

// TestPurgeAgain checks a purge that could not rewrite the files. The next purge must do it.
func TestPurgeAgain(t *testing.T) {
	var p points
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, FailPoint: p.fail})
	create(t, s, "c", 20000)
	odd := errors.New("odd")
	for _, point := range []string{"rebuild", "rebuilt"} {
		p.set(func(at string) error {
			if at == point {
				return odd
			}
			return nil
		})
		if err := purgeAll(t, s, "c"); !errors.Is(err, odd) {
			t.Fatalf("purge that fails at %s = %v", point, err)
		}
		if len(filesWith(t, dir, secret)) == 0 {
			t.Fatalf("nothing left behind at %s: the test tests nothing", point)
		}
	}
	p.set(nil)
	if err := purgeAll(t, s, "c"); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, dir, secret); len(found) > 0 {
		t.Errorf("still in %v", found)
	}
}

// TestPurgeWithoutSpace checks a purge on a disk without space for a second journal. The purge is refused, other calls are not affected,
// and the same purge succeeds later.
func TestPurgeWithoutSpace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const disk = 49 << 20
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%d", disk)); errors.Is(err, syscall.EPERM) && os.Getenv("CI") != "true" {
		t.Log("NOT RUN, a small file system cannot be mounted here (it needs root)")
		return
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := open(t, sqlite.Config{Dir: dir})
	for i := range 8 {
		create(t, s, fmt.Sprint("c", i), 100000)
		stays := newCall(fmt.Sprint("stays", i))
		stays.Requested = strings.Repeat("x", 1<<20)
		if err := s.Commit(t.Context(), creation(stays)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	free, err := s.Free()
	if err == nil {
		err = os.WriteFile(ballast, make([]byte, free-4<<20), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	calls := []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"}
	if err := purgeAll(t, s, calls...); !errors.Is(err, store.ErrFull) {
		t.Fatalf("purge on a full disk = %v, want ErrFull", err)
	}
	if err := s.Commit(t.Context(), creation(newCall("later"))); err != nil || s.Full() {
		t.Errorf("another change: %v, full %t", err, s.Full())
	}
	if c, err := s.Call(t.Context(), key("c7")); err != nil || c.Purge == nil {
		t.Errorf("the call is not purged: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := purgeAll(t, s, calls...); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, dir, secret); len(found) > 0 {
		t.Errorf("still in %v", found)
	}
	closeStore(t, s)
}
