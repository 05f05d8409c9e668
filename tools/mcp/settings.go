package mcp

import (
	"slices"

	"github.com/toold-dev/toold/setting"
)

// Settings configure the MCP servers.
type Settings struct {
	Files   []string         `yaml:"files" help:"mcpServers JSON files of Claude Desktop, Cursor or VS Code, whose servers' tools are offered" see:"tools/mcp.md"`
	Servers []ServerSettings `yaml:"servers" help:"settings for these servers"`
}

// ServerSettings are the operator's settings for one server.
type ServerSettings struct {
	Name      string   `yaml:"name" required:"true" unique:"true" help:"its key in the file"`
	Trust     string   `yaml:"trust" oneof:"none hints full" help:"trust in its statements about the effects of its tools; empty is none"`
	Tools     []string `yaml:"tools" format:"glob" help:"globs on its own names of its tools; none is all"`
	Disabled  bool     `yaml:"disabled" help:"leave the server out"`
	Profile   string   `yaml:"profile" default:"default" help:"isolation of its process, as in bash.profile"`
	Plaintext bool     `yaml:"plaintext" help:"allow http to another machine"`
	OnCancel  string   `yaml:"on_cancel" oneof:"restart leave" help:"what happens to its process when it does not stop a cancelled call; empty is restart, and leave with more trust than none"`
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
