// Package crash_test kills the real daemon, at random moments and at named points, and holds it to what it told before.
//
// TOOLD_CRASH_KILLS says how often it is killed (40), TOOLD_CRASH_STOPS how often the owner of a PostgreSQL store is stopped (2),
// TOOLD_CRASH_SEED repeats the choices of an earlier run: what is asked
// for and when it dies. The order in which the daemon does things is its own, so that a seed makes a failure likely again
// and not certain.
package crash_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// binary is the daemon with fail points and the tools of benchmarks, which stream without touching anything.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toold-crash-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "toold")
	build := exec.Command("go", "build", "-trimpath", "-tags", "grpcnotrace,toold_failpoint", "-o", dir, "./test/bench/toold", "./cmd/toold-sandbox")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
