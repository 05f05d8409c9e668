// Package crash_test kills the real daemon at random moments and at named points. Then it checks that the next daemon agrees with
// everything that clients saw.
//
// Environment variables control the tests:
//   - TOOLD_CRASH_KILLS is the number of kills (default 40).
//   - TOOLD_CRASH_STOPS is how often the owner of a PostgreSQL store is stopped (default 2).
//   - TOOLD_CRASH_SEED repeats the random choices of earlier tests: the requests and the moments of the kills.
//
// A seed does not determine the order in which the daemon works. It makes a failure likely to repeat, but not certain.
package crash_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// binary is the path of the daemon. This daemon has fail points. It also has the benchmark tools, which stream without side effects.
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
