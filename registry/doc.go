// Package registry knows which tools exist.
//
// Sources (the built-in families, a worker, an MCP server …) register their tools, all or none. The registry checks each descriptor,
// compiles its schemas once, pins its digest, and stores the result as an [Entry]. An id or alias that is taken is an error that names both
// sources.
//
// A [View] is what a caller may see: the tools offered to its agent, without those hidden from it. A lookup cannot tell a tool outside the
// view from one that does not exist.
//
// Schemas are untrusted, and so are the values that are checked against them. [Registry.CompileSchema] therefore bounds the cost of a schema
// before it compiles it, and [Schema.Validate] bounds the cost of a check before and while it runs. A schema is one document: it never
// makes the daemon read a file or open a connection.
package registry
