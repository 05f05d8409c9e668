// Package policy keeps what people decided for more than one call, and the owner of each run and thread.
//
//   - [Policies]: the remembered rules and the permission modes in force. Gates ask them about each call.
//   - [Owners]: the caller that began a run or a thread, and whether the run is blocked or has ended.
//   - [Service]: lists and changes policies for principals.
//
// The journal has all of it; this package keeps a copy in memory, so that a call reads no store. A gate never finds a rule that
// RevokeRule has ended.
package policy
