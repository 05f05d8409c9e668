// Package server is the doors: gRPC, who may come in, and how errors are told.
//
// A handler checks the request by hand, translates it, calls one method of what it serves, and translates the answer back.
// It knows no status codes: a [call.Refusal] says what could not be accepted and why, one interceptor makes a status of
// it ([Server] has one chain for every method), and any other error is INTERNAL with an id, its detail only in the log.
//
// Who asks is a [tool.Principal], made by the doors alone: from the user at the other end of the unix socket, or from a
// token. A method that the table of access does not name is served to nobody, and a server that has one does not start.
package server
