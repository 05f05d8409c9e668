// Package worker provides tools that run in external programs. These programs, the workers, connect to the daemon.
//
// A worker connects ([Hub.Connect]) with an offer of tools. The connection is then a [Session]. Workers of one pool share their tools. Each
// piece of work has a lease with an unguessable id. Only the session that holds the lease may report on the work and finish it. Messages
// from another session, or after the end of the lease, return [ErrNotHeld] and change nothing. A worker that sends nothing for the time of
// a lease loses its leases. The calls then fail with [tool.ErrLost], and the engine decides about attempts with an unknown outcome.
//
// A tool that was offered once stays registered, even over restarts. So a call that waited weeks for a person finds its tool, and waits a
// short time for a worker that reconnects. Tool lists omit the tool while no worker serves it ([Hub.Absent]).
package worker
