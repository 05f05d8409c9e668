//go:build toold_failpoint

package daemon

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// failPoint returns what kills this process with SIGKILL when a point is reached for the n-th time. TOOLD_FAILPOINT is
// name:n, such as before-commit:3; without it, or with one that cannot be read, nobody is killed.
func failPoint() func(name string) {
	want, count, _ := strings.Cut(os.Getenv("TOOLD_FAILPOINT"), ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if want == "" || err != nil {
		return func(string) {}
	}
	var left atomic.Int64
	left.Store(n)
	return func(name string) {
		if name == want && left.Add(-1) == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail for oneself
			select {}                                      // nothing happens between the signal and the end
		}
	}
}
