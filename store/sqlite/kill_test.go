package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/store/sqlite"
)

const (
	childDir   = "TOOLD_STORE_TEST_DIR"   // the daemon's directory; if it is set, the test binary acts as a daemon that kills itself
	childPoint = "TOOLD_STORE_TEST_POINT" // the fail point of the kill
	childCount = "TOOLD_STORE_TEST_COUNT" // how often the child reaches the point before the kill
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir, os.Getenv(childPoint), os.Getenv(childCount))
	}
	goleak.VerifyTestMain(m)
}

// child writes calls from eight goroutines and prints each acknowledged change, until it kills itself.
func child(dir, point, count string) {
	var seen, at int
	fmt.Sscan(count, &at)
	s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: dir, FailPoint: func(p string) error {
		if p == point {
			if seen++; seen == at {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		return nil
	}})
	if err != nil {
		fmt.Println("open", err)
		os.Exit(1)
	}
	var out sync.Mutex
	printf := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format, args...)
	}
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				c := newCall(fmt.Sprintf("e%d-w%d-%d", s.Identity().Epoch, w, i))
				for change := creation(c); ; change = advance(c, i) {
					if i%2 == 1 {
						change.Durability = store.Normal
					}
					printf("try %s %d\n", c.ID, c.Revision)
					if err := s.Commit(context.Background(), change); err != nil {
						printf("failed %v\n", err)
						os.Exit(1)
					}
					printf("ack %s %d %d\n", c.ID, c.Revision, c.LastSequence)
					if c.Status.Terminal() {
						break
					}
				}
			}
		}()
	}
	time.Sleep(time.Minute)
	os.Exit(1)
}

// advance makes the next step of a child's call: running, suspended, resuming, succeeded.
func advance(c *call.Call, n int) *store.Change {
	next := map[call.Status]call.Status{call.New: call.Running, call.Running: call.Suspended, call.Suspended: call.Resuming, call.Resuming: call.Succeeded}[c.Status]
	c.Revision++
	c.LastSequence++
	change := &store.Change{Call: c, Events: []call.Event{{Sequence: c.LastSequence, Type: call.EventStatusChanged, Status: next}}}
	switch next {
	case call.Suspended:
		c.Rounds = []call.Round{{Suspension: call.Suspension{ID: "s-" + c.ID, Action: "approval"}}}
	case call.Resuming:
		change.Decision = &store.Decision{Namespace: "ns", ID: "d-" + c.ID, CallID: c.ID, SuspensionID: "s-" + c.ID, Content: fmt.Sprint(n)}
	}
	c.Status = next
	return change
}

// TestKill sends SIGKILL to a process that writes, at each point of a write and repeatedly on one journal. Acknowledged changes must be
// stored, and each change must be stored completely or not at all.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	acked := map[string][2]int64{} // revision and last sequence of each call
	tried := map[string]int64{}
	var epoch int64
	for round := range 3 {
		for _, point := range []string{"begin", "write", "commit", "committed"} {
			name := fmt.Sprintf("%s %d", point, round)
			runChild(t, name, dir, point, 3+13*round, acked, tried)
			s := open(t, sqlite.Config{Dir: dir, FailPoint: func(p string) error {
				if p == "close" {
					return errors.New("leave it as it is")
				}
				return nil
			}})
			id := s.Identity()
			if id.Clean || id.Epoch <= epoch {
				t.Errorf("%s: identity %+v after epoch %d", name, id, epoch)
			}
			epoch = id.Epoch
			if info, err := os.Stat(filepath.Join(dir, "journal.db-wal")); err != nil || info.Size() > 64<<10 {
				t.Errorf("%s: a start left a log of %d KiB, %v", name, info.Size()>>10, err)
			}
			verify(t, name, s, acked, tried)
			s.Close()
		}
	}
	t.Logf("%d calls were acknowledged", len(acked))
}

func runChild(t *testing.T, name, dir, point string, count int, acked map[string][2]int64, tried map[string]int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childPoint+"="+point, childCount+"="+fmt.Sprint(count))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var word, id string
		var revision, sequence int64
		fmt.Sscan(lines.Text(), &word, &id, &revision, &sequence)
		switch {
		case word == "ack":
			acked[id] = [2]int64{revision, sequence}
		case word == "try":
			tried[id] = revision
		case !strings.HasPrefix(lines.Text(), "PASS"):
			t.Errorf("%s: the child said %q", name, lines.Text())
		}
	}
	err = cmd.Wait()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("%s: the child ended with %v, want SIGKILL", name, err)
	}
}

func verify(t *testing.T, name string, s *sqlite.Store, acked map[string][2]int64, tried map[string]int64) {
	t.Helper()
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for id, revision := range tried {
		c, err := s.Call(t.Context(), key(id))
		want, isAcked := acked[id]
		if errors.Is(err, store.ErrNotFound) && !isAcked {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %s: %v", name, id, err)
		}
		if c.Revision < want[0] || c.Revision > revision {
			t.Errorf("%s: %s has revision %d, acknowledged %d, tried %d", name, id, c.Revision, want[0], revision)
		}
		log, _, err := s.Events(t.Context(), key(id), 0, 100)
		if err != nil || int64(len(log)) != c.LastSequence || c.LastSequence != c.Revision {
			t.Errorf("%s: %s at revision %d has %d events, %v", name, id, c.Revision, len(log), err)
		}
		_, err = s.Decision(t.Context(), "ns", "d-"+id)
		if decided := c.Revision >= 4; decided && err != nil || !decided && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %s at %s: decision %v", name, id, c.Status, err)
		}
		if open := c.Open(); open != nil {
			if by, err := s.CallBySuspension(t.Context(), "ns", open.ID); err != nil || by.ID != id {
				t.Errorf("%s: suspension of %s: %v", name, id, err)
			}
		}
	}
}
