package daemon

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/toold-dev/toold/sandbox/cgroup"
)

// limitMemory has the runtime collect garbage more often above three quarters of the memory that the daemon may have, unless the
// user said another limit by GOMEMLIMIT.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryOfMachine() / 4 * 3)
	}
}

// memoryOfMachine is what the machine has, or the control group of the daemon when that is less.
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
