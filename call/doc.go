// Package call defines the records of toold and their rules, without I/O.
//
// A [Call] is one invocation of a tool. It has one [Status], one log of [Event] values and, at its end, one result. A [Suspension] is a
// round of waiting. Its digest binds a decision to exactly the call that the approver saw. Digested arguments and executed arguments are
// the same: arguments are parsed strictly, once, and after that only their canonical form is used.
package call
