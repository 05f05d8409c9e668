package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/tools/mcp"
)

// MCPEntries reads the files of mcp.files and returns the servers that they define. The entry of a server may use variables of the
// workspace. The entry may then differ for a namespace with a separate workspace. In this case the namespace gets a separate process of the
// server.
func (c *Config) MCPEntries() ([]mcp.Entry, error) {
	texts := make([][]byte, len(c.MCP.Files))
	for i, path := range c.MCP.Files {
		var err error
		if texts[i], err = os.ReadFile(path); err != nil {
			return nil, Errorf("mcp.files: %w", err)
		}
	}
	entries, err := c.mcpEntriesIn(Sharing, texts)
	for i := range entries {
		if err == nil && len(c.Workspaces) > 0 {
			err = c.apartFromOthers(&entries[i], Sharing)
		}
	}
	for _, namespace := range c.WithWorkspaces() {
		if err != nil {
			return nil, err
		}
		var own []mcp.Entry
		if own, err = c.mcpEntriesIn(namespace, texts); err == nil {
			err = c.splitMCP(entries, own, namespace)
		}
	}
	return entries, err
}

// splitMCP compares entries, the servers for the shared workspace, with own, the same servers for the workspace of a namespace. If the two
// entries of a server differ, the namespace gets a separate process of the server. splitMCP refuses a server that would give one namespace
// access to the workspace of another.
func (c *Config) splitMCP(entries, own []mcp.Entry, namespace string) error {
	for i := range entries { // Entries with the same index belong to the same server.
		e, shared := &own[i], entries[i]
		shared.In = nil
		same := reflect.DeepEqual(shared, *e)
		if e.Command == "" && !same {
			return Errorf("mcp.files: server %q: it has one address and the same headers for all namespaces; remove ${workspaceFolder}", e.Key)
		}
		if err := c.apartFromOthers(e, namespace); err != nil {
			return err
		}
		if same {
			continue
		}
		if entries[i].In == nil {
			entries[i].In = map[string]mcp.Entry{}
		}
		if e.Policy != nil {
			e.Policy.Source = mcp.OwnSource(e.Key, namespace)
		}
		entries[i].In[namespace] = *e
	}
	return nil
}

// apartFromOthers refuses a server whose working directory would give the callers of a namespace access to the workspace of another.
func (c *Config) apartFromOthers(e *mcp.Entry, namespace string) error {
	if e.Command == "" {
		return nil
	}
	at, err := resolve(e.Dir)
	if err != nil {
		return c.unresolved("mcp.files: server "+e.Key, err)
	}
	for _, other := range append([]string{Sharing}, c.WithWorkspaces()...) {
		workspace, err := resolve(filepath.Clean(c.WorkspaceOf(other)))
		if err != nil {
			return c.unresolved(WorkspaceKey(other), err)
		}
		if other != namespace && (holds(workspace, at) || holds(at, workspace)) {
			return Errorf("mcp.files: server %q: with its cwd %s callers of one namespace reach the workspace of another, %s (%s); use ${workspaceFolder}, or another directory",
				e.Key, at, workspace, WorkspaceKey(other))
		}
	}
	return nil
}

// mcpEntriesIn parses the texts of the files, with the variables of the workspace of a namespace.
func (c *Config) mcpEntriesIn(namespace string, texts [][]byte) ([]mcp.Entry, error) {
	workspace, err := c.WorkspacePath(namespace)
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir() // Ignore the error: without a home directory, Parse refuses entries that refer to it.
	vars := mcp.Variables{Environment: os.LookupEnv, Home: home, Workspace: workspace}
	var entries []mcp.Entry
	from := map[string]string{}
	for i, path := range c.MCP.Files {
		list, err := mcp.Parse(texts[i], vars)
		if err != nil {
			return nil, Errorf("mcp.files: %s: %w", path, err)
		}
		for _, e := range list {
			if other, ok := from[e.Key]; ok {
				return nil, Errorf("mcp.files: server %q is in %s and in %s", e.Key, other, path)
			}
			from[e.Key] = path
			entries = append(entries, e)
		}
	}
	for _, s := range c.MCP.Servers {
		if from[s.Name] == "" {
			return nil, Errorf("mcp.servers: %q is in no file of mcp.files", s.Name)
		}
	}
	return c.applyServerSettings(entries, workspace)
}

// applyServerSettings applies the settings of mcp.servers to the entries and drops the disabled ones.
func (c *Config) applyServerSettings(entries []mcp.Entry, workspace string) ([]mcp.Entry, error) {
	var kept []mcp.Entry
	for _, e := range entries {
		settings := c.MCP.Server(e.Key)
		if settings.Disabled {
			continue
		}
		if e.Plain() && !settings.Plaintext {
			return nil, Errorf("mcp.files: server %q: http to another machine can be read on the network; use https, or set plaintext for it in mcp.servers", e.Key)
		}
		if err := checkReferences(&e); err != nil {
			return nil, Errorf("mcp.files: server %q: %w", e.Key, err)
		}
		e.Tools, e.OnCancel = settings.Tools, mcp.OnCancel(settings.OnCancel)
		if settings.Trust != "none" {
			e.Trust = mcp.Trust(settings.Trust)
		}
		if e.Command != "" {
			if !filepath.IsAbs(e.Dir) {
				e.Dir = filepath.Join(workspace, e.Dir)
			}
			within, err := inWorkspace(workspace, e.Dir)
			if err != nil {
				return nil, c.unresolved("mcp.files: server "+e.Key, err)
			}
			if within {
				e.Within = workspace
			}
			if e.Policy, err = c.mcpPolicy(settings.Profile, &e); err != nil {
				return nil, fmt.Errorf("mcp.servers: %s: %w", e.Key, err)
			}
		}
		kept = append(kept, e)
	}
	return kept, nil
}

// inWorkspace reports whether dir is in the workspace, either by its path or after links are resolved.
func inWorkspace(workspace, dir string) (bool, error) {
	if rel, err := filepath.Rel(workspace, dir); err == nil && filepath.IsLocal(rel) {
		return true, nil
	}
	at, err := resolve(dir)
	if err != nil {
		return false, err
	}
	top, err := resolve(workspace)
	return err == nil && holds(top, at), err
}

// checkReferences refuses malformed references to secrets, and references in fields that every user of the machine can read, such as
// arguments.
func checkReferences(e *mcp.Entry) error {
	where := append([]string{e.Command, e.Dir, e.URL}, e.Args...)
	if e.Client != nil {
		where = append(where, e.Client.ID, e.Client.Secret)
	}
	for _, text := range where {
		if strings.Contains(text, secret.Scheme) {
			return fmt.Errorf("%s is allowed only in env and headers", secret.Scheme)
		}
	}
	for _, text := range slices.Concat(e.Env, slices.Collect(maps.Values(e.Headers))) {
		if _, err := secret.References(text); err != nil {
			return err
		}
	}
	return nil
}

// mcpPolicy returns the isolation policy of a server, which sees its working directory and its own program.
func (c *Config) mcpPolicy(profile string, e *mcp.Entry) (*sandbox.Policy, error) {
	policy, err := c.Policy(profile, filepath.Clean(e.Dir))
	if policy == nil || err != nil {
		return nil, err
	}
	policy.Source = mcp.SourcePrefix + e.Key
	if filepath.IsAbs(e.Command) {
		policy.Read = append(slices.Clone(policy.Read), filepath.Clean(e.Command))
	}
	for _, file := range c.MCP.Files { // these files may hold credentials of other servers
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		policy.Hide = append(policy.Hide, path)
	}
	return policy, nil
}
