// Package lifecycle is the engine. Every call takes the same path through it, from the request to its outcome in the journal.
//
// An active call is in memory while it runs, while a client watches it, or while a step of it is being stored. A suspended call without
// watchers uses no memory. Each step changes the record of the call and adds events. A [store.Change] writes one or more steps to the
// journal. Only the goroutine that holds the call's slot writes.
//
// There are two classes of calls. The events of a SYNC call are published after the journal has written them. The events of a BEHIND call,
// which only reads, are published immediately and written a little later, together with other events. A BEHIND call becomes SYNC when a
// step must be stored before it is published, for example:
//
//   - It suspends or writes documents.
//   - Its tool assesses it as more than read-only.
//   - A start of the daemon runs it again.
//
// Each transition has a file; docs/reference/states.md lists them in the order of the path. Code that needs neither the engine nor another
// call is in a subpackage.
package lifecycle
