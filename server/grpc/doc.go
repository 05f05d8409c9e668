// Package grpcserver serves the API over gRPC.
//
// Every request passes through a chain of interceptors, each with one concern, to its handler; see intercept.go. A handler checks the
// request, translates it, calls one method of another part of the daemon, and translates the result back.
//
// Handlers use no status codes. A [call.Refusal] says why a request was not accepted, and one interceptor converts it to a status. Any
// other error becomes INTERNAL with an id; its detail is only in the log.
//
// Package access says which client may call a method. The server does not start if it has a method that the table of package access does
// not contain.
//
// The package is called grpcserver because most of its files also use google.golang.org/grpc.
package grpcserver
