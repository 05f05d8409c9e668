// Package tool is the API for authors of tools.
//
// A tool is one method, [Tool.Execute], and a [Descriptor]. Everything else that a tool may support (validate, assess, describe, abandon,
// reconcile) is an optional interface with one method. One tool value serves all calls concurrently.
//
// A tool can end without success in three ways:
//   - A [Result] with an error is an answer. The model reads the text and may try something else.
//   - A returned error aborts the call. Documents and actions of the tool are dropped.
//   - A suspended result ([Suspended], [SuspendedWith]) suspends the call. When a decision arrives, Execute is called again
//     with [Call.Resume] set.
package tool
