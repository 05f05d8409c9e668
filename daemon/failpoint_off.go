//go:build !toold_failpoint

package daemon

// failPoint is what named points of the engine and the journal call; nil in a daemon that is not built to be killed.
func failPoint() func(name string) { return nil }
