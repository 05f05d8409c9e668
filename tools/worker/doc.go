// Package worker runs tools in programs elsewhere that dial in.
//
// A worker connects ([Hub.Connect]) with what it offers, and is a [Session] from then on. Workers of one pool share their tools. Each
// piece of work is under a lease with an unguessable name: only the session that holds it may report and end the work, and what
// comes from another session, or too late, is [ErrNotHeld] and changes nothing. A silent worker loses its leases, and
// [tool.ErrLost] leaves the calls to the engine's rule for attempts whose end nobody saw.
//
// A tool that was offered once stays known, over restarts too: a call that waited for a person for weeks finds its tool, and waits a
// little for a worker that is on its way back. Lists leave it out while nobody serves it ([Hub.Absent]).
package worker
