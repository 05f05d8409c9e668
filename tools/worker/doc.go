// Package worker runs tools in external programs that connect to the daemon.
//
// A worker connects ([Hub.Connect]) with an offer of tools. The connection is then a [Session]. Workers of one pool share their tools. Each
// piece of work has a lease with an unguessable id. Only the session that holds the lease may report on the work and finish it. Messages
// from another session, or after the end of the lease, return [ErrNotHeld] and change nothing. A silent worker loses its leases. The calls
// then fail with [tool.ErrLost], and the engine decides about attempts with an unknown outcome.
//
// A tool that was offered once stays known, even over restarts. So a call that waited weeks for a person finds its tool, and waits a short
// time for a worker that reconnects. Lists omit the tool while no worker serves it ([Hub.Absent]).
package worker
