// Package ledger keeps what the clients of a daemon were told and says when the daemon contradicts itself.
//
// A [Call] is what is known of one call: the events of its log by number, its questions and their answers, its end. A
// [Stream] is one reading of that log, a [Feed] the reading of many logs at once. Whatever a daemon told once it must tell
// again for ever, through any number of crashes; the one exception are the newest events of read-only calls, which are told
// before they are written. Everything else becomes a [Violation], which names the promise of docs/reference/promises.md.
//
// A life is one start of the daemon, named by its epoch. All methods may be called concurrently; the frames of one Stream
// or Feed come from one goroutine.
package ledger
