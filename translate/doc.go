// Package translate converts messages of the API to plain Go types and back.
//
// To… functions check their input, and refuse a field with [call.InvalidField]. From… functions cannot fail, and their results share
// strings with the argument.
//
// [FromFrame] and [WholeCall] return messages whose content is already encoded, which saves 5 µs and 20 allocations for a record. A client
// that receives such a message sees its fields. In the daemon, the getters of the message return nothing.
package translate
