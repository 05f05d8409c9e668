package daemon

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/cgroup"
)

// limitMemory makes the runtime collect garbage more often when the daemon uses more than three quarters of its available memory. A limit
// in GOMEMLIMIT takes precedence.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryOfMachine() / 4 * 3)
	}
}

// memoryOfMachine returns the memory of the machine, or the limit of the daemon's control group if that is less, in bytes.
func memoryOfMachine() int64 {
	least := int64(1) << 62
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		least = int64(info.Totalram) * int64(info.Unit)
	}
	if limit := cgroup.MemoryLimit(); limit > 0 {
		least = min(least, limit)
	}
	return least
}
