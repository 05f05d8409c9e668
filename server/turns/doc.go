// Package turns runs the calls of a model's response as a batch, and streams the provider's messages with their results.
//
// [turn] translates; this package connects it with the engine. The batch is stored with the JSON form of the turn, so that the messages can be
// made again after a restart, from the stored results.
package turns
