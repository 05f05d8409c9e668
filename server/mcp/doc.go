// Package mcpserver serves the tools of toold to MCP clients: over streamable HTTP as an http.Handler, and over stdio for `toold mcp`.
//
// It is a client of toold's own API. So it works in the daemon and in another process, and a request through MCP gets exactly the access
// check, the gates and the journal of a request through gRPC. Each tools/call makes one call of toold. The package stores nothing. A client
// continues a call by its id or by a requestState, which contains this id. The daemon checks each time whether the principal may do that.
package mcpserver
