// Package toold is a client of a toold daemon. It runs the tool calls of models, calls tools, answers questions and watches calls.
//
// An agent gets the tools for its model from a [Toolset], and runs each response of the model as a [Turn]:
//
//	client, err := toold.Dial("127.0.0.1:7130", toold.WithToken(token))
//	toolset, err := client.Toolset(ctx, toold.OpenAI, toold.ToolsetConfig{})
//	turn := toolset.Turn(&tooldv1.TurnSpec{TurnId: toold.NewTurnID(), Message: response})
//	result, err := turn.Run(ctx, toold.RunOptions{WaitForDecision: true})
//	history = append(history, result.Messages...)
//
// [Client.Call] calls one tool without a model. [Client.Inbox] returns the calls that wait for a person. [Client.Resume] computes the
// digest of such a call again ([Verify]), and then approves exactly what the call shows.
//
// Streams are iterators. After a broken connection or a restart of the daemon they continue at their last cursor, and deliver no event
// twice. While the daemon cannot be reached, methods repeat their requests for the time of [WithPatience]. When an error has an
// [Error.RetryAfter] within this time, the methods wait that long and repeat the request. They return every other error, as an [*Error]
// with a [Reason].
//
// Before its first request a client compares the daemon's version with that of this module.
//
// Package worker turns functions into tools.
package toold
