package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/cmd/toold/wire"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/server"
	"github.com/toold-dev/toold/tools/mcp"
	"github.com/toold-dev/toold/tools/shell"
)

// readMCP reads what the servers are, and starts none.
func readMCP(cfg *Config) (mcp.Config, error) {
	dir, err := filepath.Abs(cfg.Workspace)
	if err != nil {
		return mcp.Config{}, err
	}
	entries, err := cfg.mcpEntries(dir)
	out := mcp.Config{Entries: entries, Dir: dir, Env: shell.DefaultEnv(dir), Version: version}
	if err == nil {
		_, err = mcp.New(out)
	}
	return out, err
}

// openMCP lists the tools of servers as they were when they were last seen. The servers come with [mcp.Hub.Run].
func (d *daemon) openMCP(ctx context.Context) (*mcp.Hub, error) {
	cfg, err := readMCP(d.cfg)
	if err != nil || len(cfg.Entries) == 0 {
		return &mcp.Hub{}, err
	}
	lists, err := wire.OpenLists(ctx, d.store)
	if err != nil {
		d.log.Warn("tools of MCP servers are there when the servers are", zap.Error(err))
	}
	d.proofs = map[string]*proof{}
	for i := range cfg.Entries {
		e := &cfg.Entries[i]
		if profile := d.cfg.mcpServer(e.Key).Profile; e.Policy != nil && profile != d.cfg.Bash.Profile && d.proofs[profile] == nil {
			d.proofs[profile] = d.startProof(e.Policy)
		}
	}
	cfg.Exec, cfg.Tools, cfg.Memory, cfg.Log, cfg.Secrets = d.runner, wire.Sourced{Registry: d.tools}, lists, d.log, d.references
	return mcp.New(cfg)
}

// mcpProof is what holds around the process of a server.
func (d *daemon) mcpProof(source string) *proof {
	if p := d.proofs[d.cfg.mcpServer(strings.TrimPrefix(source, mcp.SourcePrefix)).Profile]; p != nil {
		return p
	}
	return d.proof.Load()
}

var mcpStates = map[mcp.State]server.SourceState{mcp.Connecting: server.SourceConnecting, mcp.Ready: server.SourceReady, mcp.Down: server.SourceDown}

// Sources implements [server.Admin].
func (a adminOf) Sources() []server.Source {
	var out []server.Source
	known := map[string]bool{}
	for _, s := range a.d.mcp.Sources() {
		known[s.Name] = true
		o := server.Source{
			Name: s.Name, State: mcpStates[s.State], Since: s.Since, Tools: s.Tools, Starts: s.Starts, Address: s.Address, Server: s.Server,
			Protocol: s.Protocol, Trust: string(s.Trust), Error: s.Error,
		}
		for _, r := range s.Refused {
			o.Refused = append(o.Refused, server.RefusedTool{Name: r.Tool, Reason: r.Why})
		}
		out = append(out, o)
	}
	for _, s := range a.workerSources() {
		known[s.Name] = true
		out = append(out, s)
	}
	for _, name := range a.d.tools.Sources() {
		if !known[name] {
			tools, _ := a.d.tools.View(registry.Offer{}).List(registry.Filter{Source: name}, registry.Page{})
			out = append(out, server.Source{Name: name, State: server.SourceReady, Tools: len(tools)})
		}
	}
	slices.SortFunc(out, func(a, b server.Source) int { return strings.Compare(a.Name, b.Name) })
	return out
}
