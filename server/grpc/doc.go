// Package grpcserver serves the API over gRPC.
//
// Every request passes through a chain of interceptors to its handler. Each interceptor has one concern; see intercept.go. A handler checks
// the request, translates it, calls one method of another part of the daemon, and translates the result back.
//
// Handlers return no status codes. If a request is not accepted, they return a [call.Refusal], which one interceptor converts to a status.
// Any other error becomes INTERNAL with an id, and only the log has its details.
//
// Package access decides which client may call a method. The server does not start if it has a method that is not in the table of package
// access.
//
// The package is called grpcserver because most of its files also use google.golang.org/grpc.
package grpcserver
