// Package mcp makes the tools of MCP servers available as tools of toold.
//
// An [Entry] describes one server, in the format of the mcpServers files of desktop clients and editors. A [Hub] connects to all servers
// and lists their tools as the source mcp:<key>. It reads a list again when the server changes it, and reconnects to a server that has
// ended. The sandbox starts the processes; the SDK only uses their pipes.
//
// A server is not trusted:
//   - Its key is the prefix of its tool names, so they cannot collide with other tools.
//   - Its texts are cleaned before a model reads them.
//   - Its hints count only as far as the operator's [Trust] goes.
//   - The size and the rate of its messages are limited.
//   - It cannot ask the client's model (sampling) or list directories of the client (roots).
//   - It gets no secrets, except the secrets in its entry.
//
// A server may ask a person a question. The call then suspends, and the decision contains the answer. A server of the stateless protocol
// era (2026-07-28) continues the call with the answer. With a server of an earlier era, toold makes the call again from its beginning, and
// sends the answer when the server asks the same question again.
package mcp
