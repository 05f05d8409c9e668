//go:build toold_failpoint

package daemon

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// failPoint returns a function that kills this process with SIGKILL when it reaches a named point for the n-th time. TOOLD_FAILPOINT has
// the form name:n, such as before-commit:3. Without a valid value, the function kills nothing.
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
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // Kill cannot fail here, because a process may always kill itself.
			select {}                                      // Block, so that nothing runs between the signal and the end of the process.
		}
	}
}
