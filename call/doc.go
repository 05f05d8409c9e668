// Package call holds the records of toold and their rules, without I/O.
//
// A [Call] is one invocation of a tool. It has one [Status], one log of [Event] and, at its end, one result. A
// [Suspension] is a round of waiting: its digest ties an answer to exactly the call that was shown. What was digested
// is what runs: arguments are parsed strictly, once, and from then on only their canonical form counts.
package call
