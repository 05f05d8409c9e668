// Package mcp brings the tools of MCP servers in.
//
// An [Entry] is one server as the mcpServers files of desktop clients and editors have it; a [Hub] connects to all of
// them, lists their tools as those of the source mcp:<key>, and keeps doing so: it follows changes of a list, and takes up
// a server that ended. A process is started by the sandbox; the SDK only speaks over its pipes.
//
// A server is a stranger. The names of its tools stand behind its key, so that none can be taken for another; what it says
// of them is cleaned before a model reads it; its hints count as far as the operator's [Trust] goes; what it sends is
// bounded in size and pace; it gets no model, no roots and no secrets. It may ask a person: the call then suspends, and the
// answer is the decision. Servers of the protocol's stateless era (2026-07-28) continue where they were; for those of an
// earlier one the call is made again from its beginning and the answer given when the same question comes.
package mcp
