// Package mcp offers the tools of MCP servers.
//
// An [Entry] describes one server, in the format of the mcpServers files of desktop clients and editors. A [Hub] connects to all servers
// and lists their tools as the source mcp:<key>. It follows changes of a list and reconnects to a server that ended. The sandbox starts the
// processes; the SDK only uses their pipes.
//
// A server is not trusted:
//   - Its key is the prefix of its tool names, so they cannot collide with other tools.
//   - Its texts are cleaned before a model reads them.
//   - Its hints count only as far as the operator's [Trust] goes.
//   - The size and the rate of its messages are limited.
//   - It gets no model, no roots and no secrets, except the secrets in its entry.
//
// A server may ask a person a question: the call then suspends, and the decision holds the answer. Servers of the stateless protocol era
// (2026-07-28) continue where they were. For servers of an earlier era the call is made again from its beginning, and the answer is sent
// when the server asks the same question again.
package mcp
