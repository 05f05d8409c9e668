// Package turn translates the responses of models to calls, and the results of calls to the messages of a provider. It does no I/O.
//
// A [Turn] is one complete response of a model. [Parse] reads it, and [Turn.Messages] answers each call in it exactly once, in the order of
// the response. The package never encodes the arguments of a call again, and returns the ids of the model unchanged. A Turn has a small
// JSON form without the arguments. After a restart, the daemon makes the same messages again from this form and the stored results.
package turn
