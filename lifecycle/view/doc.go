// Package view decides what a principal sees, and reads it: [Records].
//
// A principal sees its own calls. An approver also sees calls with a question that it may answer, viewers and operators
// see all calls of their namespace.
//
// A tool may look up more to describe a call than the caller is allowed to read, such as the lines that an edit would
// change. The principals that a question asks see that, because they must see what they approve. The caller sees it once the
// gates have allowed the call.
package view
