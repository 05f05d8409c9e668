package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/secret"
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
	Profile   string   `koanf:"profile"`   // by which its process is isolated; "": default
	Plaintext bool     `koanf:"plaintext"` // http to another machine; false: https, but to this one
	OnCancel  string   `koanf:"on_cancel"` // restart, leave: what becomes of its process when it does not stop a cancelled call; "": restart, with trust leave
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
		if on := mcp.OnCancel(s.OnCancel); on != mcp.CancelByTrust && on != mcp.CancelRestarts && on != mcp.CancelLeaves {
			wrong(key, "on_cancel %q is not restart or leave", s.OnCancel)
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
	return c.judgeMCP(entries, workspace)
}

// mcpServer is what is said of a server.
func (c *Config) mcpServer(key string) MCPServer {
	said := MCPServer{Name: key}
	if i := slices.IndexFunc(c.MCP.Servers, func(s MCPServer) bool { return s.Name == key }); i >= 0 {
		said = c.MCP.Servers[i]
	}
	said.Profile = cmp.Or(said.Profile, profileDefault)
	return said
}

// judgeMCP adds to the entries what the operator says of them.
func (c *Config) judgeMCP(entries []mcp.Entry, workspace string) ([]mcp.Entry, error) {
	var kept []mcp.Entry
	for _, e := range entries {
		said := c.mcpServer(e.Key)
		if said.Disabled {
			continue
		}
		if e.Plain() && !said.Plaintext {
			return nil, usagef("mcp.files: server %q: http to another machine shows everybody between what is said; use https, or say plaintext of it in mcp.servers", e.Key)
		}
		if err := checkReferences(&e); err != nil {
			return nil, usagef("mcp.files: server %q: %w", e.Key, err)
		}
		e.Trust, e.Tools, e.OnCancel = mcpTrust[said.Trust], said.Tools, mcp.OnCancel(said.OnCancel)
		if e.Command != "" {
			var err error
			if e.Policy, err = c.mcpPolicy(said.Profile, &e, workspace); err != nil {
				return nil, fmt.Errorf("mcp.servers: %s: %w", e.Key, err)
			}
		}
		kept = append(kept, e)
	}
	return kept, nil
}

// checkReferences refuses references that are none, and those that stand where everybody on the machine could read the value.
func checkReferences(e *mcp.Entry) error {
	where := append([]string{e.Command, e.Dir, e.URL}, e.Args...)
	if e.Client != nil {
		where = append(where, e.Client.ID, e.Client.Secret)
	}
	for _, text := range where {
		if strings.Contains(text, secret.Scheme) {
			return fmt.Errorf("%s stands in env and headers alone", secret.Scheme)
		}
	}
	for _, text := range slices.Concat(e.Env, slices.Collect(maps.Values(e.Headers))) {
		if _, err := secret.References(text); err != nil {
			return err
		}
	}
	return nil
}

// mcpPolicy isolates a server: it sees the directory that it starts in, and its own program.
func (c *Config) mcpPolicy(profile string, e *mcp.Entry, workspace string) (*sandbox.Policy, error) {
	dir := workspace
	if filepath.IsAbs(e.Dir) {
		dir = filepath.Clean(e.Dir)
	} else if e.Dir != "" {
		dir = filepath.Join(workspace, e.Dir)
	}
	policy, err := c.policy(profile, dir)
	if policy == nil || err != nil {
		return nil, err
	}
	policy.Source = mcp.SourcePrefix + e.Key
	if filepath.IsAbs(e.Command) {
		policy.Read = append(slices.Clone(policy.Read), filepath.Clean(e.Command))
	}
	for _, file := range c.MCP.Files { // they hold what others must not read
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		policy.Hide = append(policy.Hide, path)
	}
	return policy, nil
}
