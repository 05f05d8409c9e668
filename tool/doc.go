// Package tool is what the author of a tool touches.
//
// A tool is one method, [Tool.Execute], and a [Descriptor]; everything else it may know how to do (validate, assess,
// describe, abandon, reconcile) is an optional interface of one method. One tool value serves all calls at once.
//
// Two ways to fail are different on purpose. A [Result] with an error is an answer: the tool ran to its end, the model
// reads the text and may try something else. A returned error aborts the call: what the tool wanted to store with it is
// dropped. A suspended result ([Suspended], [SuspendedWith]) is neither: the call is stored and starts again from its
// beginning, with [Call.Resume] set, when a decision arrives.
package tool
