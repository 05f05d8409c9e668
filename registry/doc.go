// Package registry knows which tools exist.
//
// Sources (the built-in families, a worker, an MCP server …) register tools, all of a source or none. The registry
// checks each descriptor, compiles its schemas once, pins its digest, and keeps the result as an [Entry]. Nothing
// shadows: an id or alias that is taken is an error which names both sources.
//
// What a caller may see of it is a [View]: the offered set of its agent, without the tools that are hidden from it. A
// tool outside a view answers exactly like one that does not exist.
//
// Schemas come from strangers (tools that others wrote, questions that tools ask), and so do the values that they are
// held against. [CompileSchema] therefore bounds what a schema may cost before it is compiled, and [Schema.Validate]
// bounds what a check may cost before and while it runs. A schema is one document: it never makes the daemon read a
// file or open a connection.
package registry
