package command_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/command"
)

// A counting runner counts the programs that run at the same time. It also reports each output on standard error to the test.
type counting struct {
	command.Exec
	stderr chan string

	mu        sync.Mutex
	now, most int
}

func (c *counting) Run(ctx context.Context, spec sandbox.Spec) (*sandbox.Exit, error) {
	c.count(1)
	defer c.count(-1)
	write := spec.Output
	spec.Output = func(stream string, chunk []byte) error {
		err := write(stream, chunk)
		if stream == "stderr" && c.stderr != nil {
			c.stderr <- string(chunk)
		}
		return err
	}
	return c.Exec.Run(ctx, spec)
}

func (c *counting) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

// ownedBy returns a client whose calls have a given owner.
func ownedBy(t *testing.T, one tool.Tool, subject, onBehalfOf, id string) *client {
	c := caller(t, one, "default", id)
	c.call.Caller = tool.Principal{Namespace: "default", Subject: subject}
	c.call.OnBehalfOf = onBehalfOf
	return c
}

// The test checks that a program serves only one combination of principal and on_behalf_of. Other owners never get what the program
// remembers or prints too late.
func TestHotOwners(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.load(hotManifest(""), hot)
	for _, who := range [][2]string{{"alice", ""}, {"bob", ""}, {"alice", "carol"}, {"bob", "carol"}} {
		for i := range 2 {
			r, err := ownedBy(t, one, who[0], who[1], fmt.Sprint(who, i)).run(`{"do":"whisper"}`)
			if _, n, _ := served(t, r, err); n != i+1 {
				t.Errorf("call %d of %v is the %dth of its program", i+1, who, n)
			}
		}
	}
	r, err := ownedBy(t, one, "eve", "", "e").run(`{"do":"die"}`)
	if err != nil || r.Error == nil || r.Error.Reason != "PROGRAM_ENDED" || strings.Contains(r.ModelText(), "private") {
		t.Errorf("%+v, %v", r, err)
	}
}

// The test checks that the result of a call contains no standard error of an earlier call.
func TestHotWords(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	exec := &counting{Exec: runner, stderr: make(chan string, 100)}
	s.cfg.Exec = exec
	one := s.load(hotManifest(""), hot)
	r, err := ownedBy(t, one, "alice", "", "a").run(`{"do":"whisper"}`)
	served(t, r, err)
	for all := ""; !strings.Contains(all, "private\n"); {
		all += <-exec.stderr
	}
	r, err = ownedBy(t, one, "alice", "", "b").run(`{"do":"die"}`)
	if want := "The program ended before it answered, with exit code 7.\nlast words"; err != nil || r.ModelText() != want {
		t.Errorf("%q, want %q, %v", r.ModelText(), want, err)
	}
}

// The test checks that all owners together have at most as many programs as the setting total allows. At this limit, a new program replaces
// an idle program of another owner, or waits until a busy program ends.
func TestHotTotal(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	exec := &counting{Exec: runner}
	s.cfg.Exec = exec
	one := s.load(hotManifest("instances: 2, total: 3"), hot)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			r, err := ownedBy(t, one, fmt.Sprint("owner-", i%8), "", fmt.Sprint(i)).run("{}")
			if err != nil || !r.IsSuccess() {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
	for i := range 8 { // In each round, idle programs use all entries of the semaphore slots.
		r, err := ownedBy(t, one, fmt.Sprint("late-", i), "", fmt.Sprint("late", i)).run("{}")
		served(t, r, err)
	}
	if exec.most != 3 {
		t.Errorf("%d programs at once", exec.most)
	}
	if got := s.problem(hotManifest("total: 1025")); !strings.Contains(got, "run.persistent: the limits are 64 instances, a total of 1024") {
		t.Errorf("a wrong total is reported as %q", got)
	}
}

// The test checks that a call can be cancelled while it waits for the end of another owner's program. Such a call counts as not begun.
func TestHotSlotAwaited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	one := s.load(hotManifest("total: 1"), hot)
	holds, end := context.WithCancelCause(t.Context())
	busy := ownedBy(t, one, "alice", "", "a")
	over := make(chan error)
	go func() {
		_, err := busy.within(holds, `{"do":"hang"}`)
		over <- err
	}()
	for len(busy.reporter.ProgressReports()) == 0 {
		time.Sleep(time.Millisecond)
		select {
		case err := <-over:
			t.Fatal(err)
		default:
		}
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := ownedBy(t, one, "bob", "", "b").within(ctx, "{}"); !errors.Is(err, why) || !errors.Is(err, tool.ErrNotRun) {
		t.Errorf("%v", err)
	}
	then := make(chan error)
	go func() {
		r, err := ownedBy(t, one, "bob", "", "c").run("{}")
		if err == nil && !r.IsSuccess() {
			err = errors.New(r.ModelText())
		}
		then <- err
	}()
	end(why)
	if err := <-over; !errors.Is(err, why) {
		t.Error(err)
	}
	if err := <-then; err != nil {
		t.Error(err)
	}
}
