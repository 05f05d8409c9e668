package mcp

import (
	"slices"

	"github.com/toold-dev/toold/setting"
)

// Settings configure the connections to MCP servers, and the daemon as an MCP server.
type Settings struct {
	// Approvals is for the daemon's own endpoint; this package does not use it.
	Approvals bool `yaml:"approvals" help:"offer the approval of a call to the MCP client that sent it, if one approver is enough and this may be the caller; a client can answer without asking a person" see:"../how-to/use-from-mcp-clients.md#approvals"`

	Files   []string         `yaml:"files" help:"mcpServers JSON files of Claude Desktop, Cursor or VS Code, whose servers' tools are offered" see:"tools/mcp.md"`
	Servers []ServerSettings `yaml:"servers" help:"settings for the servers in mcp.files"`
}

// ServerSettings are the operator's settings for one server.
type ServerSettings struct {
	Name      string   `yaml:"name" required:"true" unique:"true" help:"key of the server in its file"`
	Trust     string   `yaml:"trust" oneof:"none hints full" help:"how far toold trusts what the server says about the effects of its tools; if empty, none"`
	Tools     []string `yaml:"tools" format:"glob" help:"globs on the server's own names of its tools; only tools that match are offered; an empty list matches every tool"`
	Disabled  bool     `yaml:"disabled" help:"ignore the server"`
	Profile   string   `yaml:"profile" default:"default" help:"isolation of the server's process, as in bash.profile"`
	Plaintext bool     `yaml:"plaintext" help:"allow unencrypted http to a server on another machine"`
	OnCancel  string   `yaml:"on_cancel" oneof:"restart leave" help:"what toold does with the server's process when it does not stop a cancelled call; if empty, restart if trust is none, otherwise leave"`
}

// Server returns the settings for a server, or the defaults when there are none.
func (s *Settings) Server(key string) ServerSettings {
	if i := slices.IndexFunc(s.Servers, func(of ServerSettings) bool { return of.Name == key }); i >= 0 {
		return s.Servers[i]
	}
	of := ServerSettings{Name: key}
	setting.Fill(&of)
	return of
}
