// Package call defines the records of toold and their rules, without I/O.
//
// A [Call] is one invocation of a tool. It has one [Status], one log of [Event] values and, at its end, one result. A [Suspension] is a
// round of waiting. Its digest binds a decision to exactly the call that the approver saw. Arguments are parsed strictly, once. After that
// only their canonical form is used, so the digested arguments and the executed arguments are the same.
package call
