package tool

import "time"

// A SourceState is the state of a source of tools.
type SourceState string

// The states of a source.
const (
	SourceConnecting SourceState = "CONNECTING"
	SourceReady      SourceState = "READY"
	SourceDown       SourceState = "DOWN" // the daemon tries to reconnect
)

// A SourceStatus is the health of a source of tools.
type SourceStatus struct {
	Name      string
	Namespace string // the only namespace in which the source's tools exist; empty means all namespaces
	State     SourceState
	Since     time.Time // start of the current state; zero for a source that is part of the daemon
	Unready   time.Time // since when the source has not been ready, over all attempts to connect; zero when it is ready
	Address   string    // program or URL
	Server    string    // the server's own name and version
	Protocol  string
	Trust     string
	Tools     int
	Starts    int    // number of connections that were made or tried
	Error     string // the last error
	Refused   []RefusedTool
}

// A RefusedTool is a tool of a source that the daemon refuses, with the reason.
type RefusedTool struct{ Name, Reason string }
