// Package translate turns messages of the API into plain Go types and back.
//
// To… functions check what they read, and refuse a field with [call.InvalidField]. From… functions cannot fail, and share strings
// with their argument.
//
// [FromFrame] and [WholeCall] return messages whose content is encoded already: a client that receives them finds the fields, and
// the getters of the message return nothing. This saves 5 µs and 20 allocations for a record.
package translate
