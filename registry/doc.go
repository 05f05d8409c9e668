// Package registry stores the tools that exist.
//
// Sources (the built-in families, a worker, an MCP server …) register their tools, all or none. The registry checks each descriptor,
// compiles its schemas once, pins its digest, and stores the result as an [Entry]. When an id or alias is taken, registration fails with an
// error that names both sources.
//
// A [View] contains the tools that a caller may see: the tools offered to its agent, without hidden ones. A lookup gives the same result
// for a tool outside the view and for a tool that does not exist.
//
// Schemas are untrusted, and so are the values that are checked against them. [Registry.CompileSchema] limits the cost of a schema before
// it compiles it. [Schema.Validate] limits the cost of a check before and during the check. A schema is one document: it never makes the
// daemon read a file or open a connection.
package registry
