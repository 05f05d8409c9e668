// Package turns runs the calls of a model's response as a batch, and streams the provider's messages with their results.
//
// Package [turn] translates between the formats of providers and calls. This package connects it with the engine. The batch is stored
// together with the JSON form of the turn. The same messages can therefore be made again from the stored results after a restart.
package turns
