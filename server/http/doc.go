// Package httpserver serves the API over HTTP, for browsers, scripts and MCP clients. It offers Connect, gRPC-Web and JSON for every
// method, and additional routes for everything that these protocols cannot do.
//
// Package service serves the requests. This package only finds the credential of a request, and writes the response.
package httpserver
