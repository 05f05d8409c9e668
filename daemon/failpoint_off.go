//go:build !toold_failpoint

package daemon

// failPoint returns the function that the engine and the journal call at named points. It is nil in a normal build.
func failPoint() func(name string) { return nil }
