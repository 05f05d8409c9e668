// Package mcpserver serves the tools of toold to MCP clients: over streamable HTTP as an http.Handler, and over stdio for `toold mcp`.
//
// It is a client of toold's own API, so it works in the daemon and in another process. A request over MCP passes the same access check and
// gates, and gets the same records, as a request over gRPC. Each tools/call makes one call of toold. The package stores nothing. A client
// continues a call by its id, or by a requestState that contains this id. The daemon checks each time whether the principal may do that.
package mcpserver
