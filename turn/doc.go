// Package turn translates the responses of models to calls, and the results of calls to the messages of a provider. It does no I/O.
//
// A [Turn] is one complete response of a model. [Parse] reads it, and [Turn.Messages] answers every call in it exactly once, in the order of
// the response. The arguments of a call are the bytes of the response, never encoded again, and the ids of the model are returned unchanged.
// A Turn has a small JSON form without the arguments. With it and the stored results a daemon makes the same messages again after a restart.
package turn
