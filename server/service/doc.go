// Package service implements the services of the API once, for all endpoints.
//
// Every request passes through a chain of interceptors to its handler. Each interceptor has one concern; see intercept.go. A handler checks
// the request, translates it, calls one method of another part of the daemon, and translates the result back.
//
// Handlers return no status codes. If a request is not accepted, they return a [call.Refusal], which one interceptor converts to a status.
// Any other error becomes INTERNAL with an id, and only the log has its details.
//
// Package access decides which client may call a method. An endpoint only says which [access.Credential] the client sent.
package service
