package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/toold-dev/toold/tools/mcp"
)

// MCP says which MCP servers there are.
type MCP struct {
	Files   []string    `koanf:"files"`   // mcpServers JSON of Claude Desktop, Cursor or VS Code; none: no servers
	Servers []MCPServer `koanf:"servers"` // what the operator says of them; none: nothing more than their files
}

// MCPServer is what the operator says of a server.
type MCPServer struct {
	Name      string   `koanf:"name"`      // its key in the file; required, once
	Trust     string   `koanf:"trust"`     // none, hints, full: how far what it says of its tools' effects is believed; "": none
	Tools     []string `koanf:"tools"`     // globs on its own names of its tools; none: all
	Disabled  bool     `koanf:"disabled"`  // it is left out
	Plaintext bool     `koanf:"plaintext"` // http to another machine; false: https, but to this one
}

var mcpTrust = map[string]mcp.Trust{"": mcp.TrustNone, "none": mcp.TrustNone, "hints": mcp.TrustHints, "full": mcp.TrustFull}

func (c *Config) validateMCP(wrong complaint) {
	seen := map[string]bool{}
	for i, s := range c.MCP.Servers {
		key := fmt.Sprintf("mcp.servers[%d]", i)
		if s.Name == "" || seen[s.Name] {
			wrong(key, "name %q is empty or stands twice", s.Name)
		}
		seen[s.Name] = true
		if _, ok := mcpTrust[s.Trust]; !ok {
			wrong(key, "trust %q is not none, hints or full", s.Trust)
		}
		if err := mcp.CheckTools(s.Tools); err != nil {
			wrong(key, "tools: %v", err)
		}
	}
}

// mcpEntries reads the files.
func (c *Config) mcpEntries(workspace string) ([]mcp.Entry, error) {
	home, _ := os.UserHomeDir() // a reference to it is refused then
	vars := mcp.Variables{Environment: os.LookupEnv, Home: home, Workspace: workspace}
	var entries []mcp.Entry
	from := map[string]string{}
	for _, path := range c.MCP.Files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, usagef("mcp.files: %w", err)
		}
		list, err := mcp.Parse(text, vars)
		if err != nil {
			return nil, usagef("mcp.files: %s: %w", path, err)
		}
		for _, e := range list {
			if other, ok := from[e.Key]; ok {
				return nil, usagef("mcp.files: server %q is in %s and in %s", e.Key, other, path)
			}
			from[e.Key] = path
			entries = append(entries, e)
		}
	}
	for _, s := range c.MCP.Servers {
		if from[s.Name] == "" {
			return nil, usagef("mcp.servers: %q is in no file of mcp.files", s.Name)
		}
	}
	return c.judgeMCP(entries)
}

// judgeMCP adds to the entries what the operator says of them.
func (c *Config) judgeMCP(entries []mcp.Entry) ([]mcp.Entry, error) {
	var kept []mcp.Entry
	for _, e := range entries {
		var said MCPServer
		if i := slices.IndexFunc(c.MCP.Servers, func(s MCPServer) bool { return s.Name == e.Key }); i >= 0 {
			said = c.MCP.Servers[i]
		}
		if said.Disabled {
			continue
		}
		if e.Plain() && !said.Plaintext {
			return nil, usagef("mcp.files: server %q: http to another machine shows everybody between what is said; use https, or say plaintext of it in mcp.servers", e.Key)
		}
		e.Trust, e.Tools = mcpTrust[said.Trust], said.Tools
		kept = append(kept, e)
	}
	return kept, nil
}
