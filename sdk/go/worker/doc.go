// Package worker turns Go functions into tools of a toold daemon.
//
//	w := worker.New(worker.Config{Address: "127.0.0.1:7130", Token: token, Pool: "greeter"})
//	worker.Add(w, worker.Tool{ID: "greet", Description: "Greets a person."},
//		func(ctx context.Context, c *worker.Call, in struct {
//			Name string `json:"name"`
//		}) (string, error) {
//			return "Hello, " + in.Name + "!", nil
//		})
//	err := w.Run(ctx)
//
// The worker dials the daemon, and dials again when the connection breaks. Running calls continue meanwhile. A function runs once for each
// attempt that the daemon starts, and concurrently with other functions. Its context ends in three cases: the call is cancelled, its time
// is over, or the worker was silent so long that the daemon has given up the call.
//
// The value that a function returns becomes the data of the call's result. An error from [Fail] is an answer that the model reads. An error
// from [Ask] asks a person; after the answer the function starts again from its beginning ([Call.Resume]). Any other error aborts the call.
package worker
