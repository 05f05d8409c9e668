package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(file)
		if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 {
			least = min(least, n)
		}
	}
	return least
}
