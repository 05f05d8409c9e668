package daemon

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/daemon/wire"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/shell"
)

// readMCP reads the configuration of the MCP servers and starts none.
func readMCP(cfg *config.Config, version string) (mcp.Config, error) {
	dir, err := cfg.WorkspacePath(config.Sharing)
	if err != nil {
		return mcp.Config{}, err
	}
	entries, err := cfg.MCPEntries()
	out := mcp.Config{Entries: entries, Dir: dir, Env: shell.DefaultEnv(), Version: version}
	if err == nil {
		_, err = mcp.New(out)
	}
	return out, err
}

// mcpInForce holds the configuration of the current MCP servers.
type mcpInForce struct {
	cfg    *config.Config
	proofs map[string]*proof // by profile, except the profile of bash
}

// openMCP registers the tools of each server from the tool list that the server sent last, which is stored. It connects to no server;
// [mcp.Hub.Run] does that later.
func (d *daemon) openMCP(ctx context.Context) (*mcp.Hub, error) {
	cfg, err := readMCP(d.cfg, d.version)
	if err != nil {
		return nil, err
	}
	lists, err := wire.OpenLists(ctx, d.store)
	if err != nil {
		d.log.Warn("stored tool lists of MCP servers cannot be read; the tools appear when the servers connect", zap.Error(err))
	}
	d.proveMCP(d.cfg, cfg.Entries)
	cfg.Exec, cfg.Tools, cfg.Memory, cfg.Log, cfg.Secrets = d.runner, wire.Sourced{Registry: d.tools}, lists, d.log, d.references
	cfg.Own = d.own()
	cfg.Vault = wire.Vault(filepath.Join(d.cfg.Data, "mcp"))
	if d.secrets != nil {
		cfg.Known = signedIn(d.secrets)
	}
	return mcp.New(cfg)
}

// signedIn returns a function that redacts the tokens that servers receive by sign-in. Each server has its own group of redacted values, so
// that many tokens of one server do not displace those of others. Some tokens are too short for redaction in the whole daemon. Only the MCP
// client that is connected to the server redacts such a token.
func signedIn(secrets *redact.Live) func(server, value string) {
	return func(server, value string) {
		_ = secrets.Know(fmt.Sprintf("sign-in.%.4x", sha256.Sum256([]byte(server))), value)
	}
}

// proveMCP starts to test the isolation of servers, for each profile without a proof.
func (d *daemon) proveMCP(cfg *config.Config, entries []mcp.Entry) {
	in := &mcpInForce{cfg: cfg, proofs: map[string]*proof{}}
	if before := d.servers.Load(); before != nil {
		in.proofs = maps.Clone(before.proofs)
	}
	for i := range entries {
		e := &entries[i]
		if profile := cfg.MCP.Server(e.Key).Profile; e.Policy != nil && profile != cfg.Bash.Profile && in.proofs[profile] == nil {
			in.proofs[profile] = d.startProof(e.Policy)
		}
	}
	d.servers.Store(in)
}

// mcpProof returns the proof for the process of a server.
func (d *daemon) mcpProof(source string) *proof {
	in := d.servers.Load()
	if p := in.proofs[in.cfg.MCP.Server(strings.TrimPrefix(source, mcp.SourcePrefix)).Profile]; p != nil {
		return p
	}
	return d.proof.Load()
}

// nextMCP is the server configuration that a reload applies.
type nextMCP struct {
	cfg     *config.Config
	entries []mcp.Entry
}

// readNextMCP reads the MCP servers and the new profiles of a later configuration. A change of other settings that affect the isolation of
// the servers needs a restart.
func (d reloader) readNextMCP(later *config.Config) (nextMCP, error) {
	cfg := *d.cfg
	cfg.MCP, cfg.Sandbox.Profiles = later.MCP, later.Sandbox.Profiles
	servers, err := readMCP(&cfg, d.version)
	return nextMCP{&cfg, servers.Entries}, err
}

func (d reloader) reloadMCP(next nextMCP) (swapped bool, err error) {
	before := d.servers.Load().cfg.MCP.Approvals
	d.proveMCP(next.cfg, next.entries)
	keys, err := d.mcp.Reload(next.entries)
	if len(keys) > 0 {
		d.log.Info("MCP servers changed", zap.Strings("servers", keys))
	}
	return len(keys) > 0 || before != next.cfg.MCP.Approvals, err
}

// Sources implements [service.Admin].
func (a adminOf) Sources() []tool.SourceStatus {
	var out []tool.SourceStatus
	known := map[string]bool{}
	for _, s := range a.d.mcp.Sources() {
		known[s.Name] = true
		out = append(out, s)
	}
	for _, s := range a.workerSources() {
		known[s.Name] = true
		out = append(out, s)
	}
	for _, name := range a.d.tools.Sources() {
		if !known[name] {
			out = append(out, tool.SourceStatus{Name: name, State: tool.SourceReady, Tools: a.d.toolsOf(name)})
		}
	}
	slices.SortFunc(out, func(a, b tool.SourceStatus) int { return strings.Compare(a.Name, b.Name) })
	return out
}
