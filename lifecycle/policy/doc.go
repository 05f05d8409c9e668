// Package policy keeps decisions that apply to more than one call, and the owner of each run and thread.
//
//   - [Policies]: the remembered rules and the permission modes in force. Gates read them for each call.
//   - [Owners]: the caller that began each run or thread, and whether the run is blocked or has ended.
//   - [Service]: lists and changes policies for principals.
//
// All of this is stored in the journal. The package keeps a copy in memory, so that a call does not read the store. After RevokeRule has
// returned, no gate finds the rule.
package policy
