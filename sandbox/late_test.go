package sandbox_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox"
)

// sinceBoot returns the current reading of CLOCK_BOOTTIME.
func sinceBoot(t *testing.T) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// children returns the living child processes of this process.
func children(t *testing.T) (pids []int) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children") // The thread may have ended, so an error is ignored.
		for _, word := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(word)
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestT126NoProcessThatIsLate stops process 1 after the daemon proved that it owns the store and before the program starts. When process 1
// continues after the latest start time, the program never starts.
func TestT126NoProcessThatIsLate(t *testing.T) {
	var startBy func() time.Duration
	r := open(t, func(c *sandbox.Config) {
		c.StartBy = func(context.Context) (time.Duration, error) { return startBy(), nil }
	})
	dir := t.TempDir()
	begin := func(harmless bool) error {
		spec := confined(dir, "echo $$ > pids")
		spec.Harmless = harmless
		_, err := r.Run(t.Context(), spec)
		return err
	}
	startBy = func() time.Duration { return sinceBoot(t) + time.Hour }
	if err := begin(false); err != nil || len(pids(t, dir)) != 1 {
		t.Fatalf("in time: %v", err)
	}
	startBy = func() time.Duration { return 1 }
	if err := begin(true); err != nil {
		t.Errorf("late, and harmless: %v", err)
	}
	if err := os.Remove(dir + "/pids"); err != nil {
		t.Fatal(err)
	}
	if err := begin(false); !errors.Is(err, sandbox.ErrKept) {
		t.Errorf("late: %v", err)
	}
	before := children(t)
	stopped := 0
	startBy = func() time.Duration {
		for _, pid := range children(t) {
			if !slices.Contains(before, pid) {
				stopped++
				if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
					t.Error(err)
				}
				by := sinceBoot(t) + 200*time.Millisecond
				go func() {
					for sinceBoot(t) <= by {
						time.Sleep(time.Millisecond)
					}
					_ = syscall.Kill(pid, syscall.SIGCONT)
				}()
				return by
			}
		}
		t.Error("there is no process 1")
		return 0
	}
	if err := begin(false); !errors.Is(err, sandbox.ErrKept) || stopped != 1 {
		t.Errorf("stopped in between: %v, %d processes", err, stopped)
	}
	if n := len(pids(t, dir)); n > 0 {
		t.Errorf("%d programs began", n)
	}
}
