// Package httpserver serves the API over HTTP, for browsers, scripts and MCP clients: Connect, gRPC-Web and JSON for every method, and
// additional routes for what these protocols cannot do.
//
// Package service serves the requests. This package only says which credential the client sent, and writes the responses.
package httpserver
