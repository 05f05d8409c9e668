// Package lifecycle is the engine: the one path that every call takes, from the request to the journal and back.
//
// An active call is in memory while it runs, while a client watches it, or while a step of it is being stored. A suspended call
// without watchers costs nothing. Each step of a call is one [store.Change], made from the current record; only the holder of the
// call's slot makes one.
//
// There are two classes. The events of a SYNC call are published after the journal wrote them. Those of a BEHIND call, which only
// reads, are published at once and written together a little later. A BEHIND call becomes SYNC
// before it suspends or writes documents, when its tool assesses it as more than read-only, and when a start runs it again.
//
// Each transition has a file; docs/reference/states.md has them in the order of the path. What needs neither the engine nor
// another call is in a package below this one.
package lifecycle
