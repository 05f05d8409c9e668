package tool

import "time"

// A SourceState is the state of a source of tools.
type SourceState string

// The states.
const (
	SourceConnecting SourceState = "CONNECTING"
	SourceReady      SourceState = "READY"
	SourceDown       SourceState = "DOWN" // the daemon tries again to connect
)

// A SourceStatus is the health of a source of tools.
type SourceStatus struct {
	Name      string
	Namespace string // whose callers alone have its tools; "": all
	State     SourceState
	Since     time.Time // zero: it comes with the daemon
	Address   string    // program or URL
	Server    string    // its own name for itself, with its version
	Protocol  string
	Trust     string
	Tools     int
	Starts    int    // connections that were made or tried
	Error     string // the last one
	Refused   []RefusedTool
}

// A RefusedTool is a tool of a source that the daemon does not take, and why.
type RefusedTool struct{ Name, Reason string }
