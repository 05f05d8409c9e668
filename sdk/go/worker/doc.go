// Package worker turns Go functions into tools of a toold daemon.
//
//	w := worker.New(worker.Config{Address: "127.0.0.1:7130", Token: token, Pool: "greeter"})
//	worker.Add(w, worker.Tool{ID: "greet", Description: "Greets somebody."},
//		func(ctx context.Context, c *worker.Call, in struct {
//			Name string `json:"name"`
//		}) (string, error) {
//			return "Hello, " + in.Name + "!", nil
//		})
//	err := w.Run(ctx)
//
// The worker dials the daemon, and again when the connection breaks; running calls continue meanwhile. A function runs once for each attempt
// that the daemon starts, and many run at once. Its context ends when the call is cancelled or out of time, and when the daemon has
// given the call up because the worker was silent.
//
// What a function returns is the data of the call's result. [Fail] is an answer that the model reads, any other error aborts the call,
// and [Ask] waits for a person: the function starts again from its beginning when the answer is there ([Call.Resume]).
package worker
