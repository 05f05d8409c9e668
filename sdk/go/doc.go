// Package toold is a client of a toold daemon. It calls tools, answers questions and watches calls.
//
//	client, err := toold.Dial("127.0.0.1:7130", toold.WithToken(token))
//	call, err := client.Call(ctx, toold.NewSpec("greet", map[string]string{"name": "Ada"}))
//	fmt.Println(call.GetResult().GetMessage())
//
// Streams are iterators. After a broken connection or a restart of the daemon they continue at their last cursor, and deliver no event
// twice. [NewSpec] gives each call an id, so that a call that is sent again never runs twice. Before an approval the client recomputes the
// digest from what the call shows ([Verify]).
//
// Package worker turns functions into tools.
package toold
