package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toold-dev/toold/sandbox"
)

// stopped opens a runner whose helper does not answer.
func stopped(t *testing.T, dir string) (r *sandbox.Runner, helper int) {
	t.Helper()
	r, pid := resident(t)
	run(t, r, confined(dir, "true"))
	helper = pid()
	if err := syscall.Kill(helper, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return r, helper
}

// soon is shorter than the time that the sandbox waits for a silent helper, but long enough for a busy machine.
const soon = 8 * time.Second

type runEnd struct {
	exit *sandbox.Exit
	err  error
	at   time.Time
}

func begin(ctx context.Context, r *sandbox.Runner, spec sandbox.Spec) <-chan runEnd {
	end := make(chan runEnd, 1)
	go func() {
		exit, err := r.Run(ctx, spec)
		end <- runEnd{exit, err, time.Now()}
	}()
	return end
}

// The test checks that a run can be cancelled quickly while the helper does not answer: while the helper creates the run, and while the run
// waits for its turn (P5). Its command does not start later.
func TestCancelWhileTheHelperIsUnresponsive(t *testing.T) {
	dir := t.TempDir()
	r, helper := stopped(t, dir)
	ctx, cancel := contextWithCause(t)
	var ends []<-chan runEnd
	for range 3 {
		ends = append(ends, begin(ctx, r, confined(dir, "echo x >> ran; sleep 60")))
	}
	time.Sleep(100 * time.Millisecond) // Now one run asks the helper, and two wait.
	cancelled := time.Now()
	cancel(errCancelled)
	for _, end := range ends {
		if e := <-end; e.exit != nil || !errors.Is(e.err, errCancelled) || e.at.Sub(cancelled) > soon {
			t.Errorf("cancelled: %+v, %v after %v", e.exit, e.err, e.at.Sub(cancelled))
		}
	}
	_ = syscall.Kill(helper, syscall.SIGCONT) // The helper may still exist, so it is continued.
	if exit, out := run(t, r, confined(dir, "cat ran 2>/dev/null; echo next")); exit.Code != 0 || out.read("stdout") != "next\n" {
		t.Errorf("after a cancel: %+v, %q", exit, out.read("stdout"))
	}
	time.Sleep(100 * time.Millisecond)
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a command started after its run was reported as cancelled")
	}
	until(t, "all to be waited for", func() bool { return len(zombies()) == 0 })
}

// While the helper is silent about one run, other runs end normally.
func TestOthersEndWhileTheHelperIsUnresponsive(t *testing.T) {
	dir := t.TempDir()
	r, helper := stopped(t, dir)
	if err := syscall.Kill(helper, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	alone := confined(dir, "echo ready; sleep 60 & cat")
	alone.Policy.Unsupervised = true
	var lasting []<-chan runEnd
	ctx, cancel := contextWithCause(t)
	for _, spec := range []sandbox.Spec{bash(dir, "echo ready; sleep 60 & cat"), alone} {
		var out screen
		spec.Output, spec.Grace = out.output, -1
		spec.Stdin = forever(t)
		lasting = append(lasting, begin(ctx, r, spec))
		until(t, "ready", func() bool { return strings.Contains(out.read("stdout"), "ready\n") })
	}
	if err := syscall.Kill(helper, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waits, end := contextWithCause(t)
	waiting := begin(waits, r, confined(dir, "true"))
	time.Sleep(100 * time.Millisecond)
	cancelled := time.Now()
	cancel(errCancelled)
	for _, l := range lasting {
		e := <-l
		if e.exit == nil || !errors.Is(e.err, errCancelled) || e.at.Sub(cancelled) > soon {
			t.Errorf("cancelled: %+v, %v after %v", e.exit, e.err, e.at.Sub(cancelled))
			continue
		}
		mustBeConfirmed(t, e.exit)
	}
	end(errCancelled)
	<-waiting
}

func TestCloseWhileTheHelperIsUnresponsive(t *testing.T) {
	dir := t.TempDir()
	r, _ := stopped(t, dir)
	end := begin(t.Context(), r, confined(dir, "true"))
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	if err := r.Close(); err != nil || time.Since(began) > soon {
		t.Errorf("Close: %v after %v", err, time.Since(began))
	}
	if e := <-end; e.exit != nil || !errors.Is(e.err, sandbox.ErrClosed) {
		t.Errorf("the run: %+v, %v", e.exit, e.err)
	}
}

// forever returns an input that ends with the test.
func forever(t *testing.T) *os.File {
	t.Helper()
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(); in.Close() })
	return in
}
