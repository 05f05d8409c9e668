// Package lifecycle is the engine: the one path that every call takes, from the door to the journal and back.
//
// A call in memory is a [live]: it exists while the call runs, while somebody watches it, or while a step of it is
// being stored, and not otherwise; a suspended call that nobody watches costs nothing. Each step of a call is one
// [store.Change], made from the record as it stood, and whoever holds the call's slot is the only one who makes one.
//
// Two classes: the events of a SYNC call are told only after the journal wrote them; those of a BEHIND call (read-only
// ones) are told at once and written packed within [behindDelay]. A BEHIND call that suspends or writes documents
// becomes SYNC first; so does one that its tool assesses as more than read-only, or that a start runs again.
//
// Each transition has a file of its own; docs/reference/states.md has them in the order of the path.
package lifecycle
