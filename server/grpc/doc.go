// Package grpcserver serves the API over gRPC. It owns the connections: listeners, TLS, the local user of a unix socket, and limits for
// clients without a credential. Package service serves the requests.
//
// The server does not start if it has a method that is not in the table of package access.
//
// The package is called grpcserver because most of its files also use google.golang.org/grpc.
package grpcserver
