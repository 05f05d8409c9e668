// Package view decides which records a principal may see, and reads them. See [Records].
//
// A principal sees its own calls. An approver also sees calls with a question that it may answer. Viewers and operators see all calls of
// their namespace.
//
// To describe a call, a tool may read data that the caller may not read, such as the lines that an edit would change. The approvers of a
// question see this data, because they must know what they approve. The caller sees this data after the gates have allowed the call.
package view
