package sandbox_test

import "syscall"

// attackOldModes does nothing, because only amd64 has older calls that set a mode.
func attackOldModes(uintptr, func(string, syscall.Errno)) {}
