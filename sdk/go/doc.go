// Package toold is a client of a toold daemon: it calls tools, answers questions and watches.
//
//	client, err := toold.Dial("127.0.0.1:7130", toold.WithToken(token))
//	call, err := client.Call(ctx, toold.NewSpec("greet", map[string]string{"name": "Ada"}))
//	fmt.Println(call.GetResult().GetMessage())
//
// Streams are iterators. They survive a broken connection and a restart of the daemon: they continue where they were, nothing
// twice. Each call of [NewSpec] has an id, so that what is sent again never runs twice. An answer is given for a digest that is
// recomputed from what the call shows ([Verify]).
//
// Package worker beside it turns functions into tools.
package toold
