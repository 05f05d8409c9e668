// Package grpcserver serves the API over gRPC.
//
// Every request passes a chain of interceptors, each with one concern, to its handler: see intercept.go. A handler checks the
// request, translates it, calls one method of the part that does the work, and translates the answer back. It knows no status codes: a
// [call.Refusal] says what could not be accepted and why, and one interceptor makes a status of it. Any other error is INTERNAL with an
// id; its detail is in the log only.
//
// Package access says which client may call a method. A server with a method that the table of access does not name does not start.
// The package is called grpcserver because most of its files use google.golang.org/grpc.
package grpcserver
