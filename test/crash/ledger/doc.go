// Package ledger records what the clients of a daemon saw, and reports when the daemon contradicts what it said before.
//
// A [Call] holds everything that is known of one call: the events of its log by number, its questions and their answers, and its end. A
// [Stream] is one reading of that log. A [Feed] is the reading of many logs at once.
//
// A daemon must repeat everything that it has published, through any number of crashes. The only exception is the newest events of
// read-only calls, which are published before they are durable. Any other difference becomes a [Violation], which names the promise in
// docs/reference/promises.md.
//
// A life is one start of the daemon; its number is the epoch. All methods are safe for concurrent use. The frames of one Stream or Feed
// must come from one goroutine.
package ledger
