package sandbox_test

import "syscall"

// attackOldModes has nothing to try here.
func attackOldModes(uintptr, func(string, syscall.Errno)) {}
