package main

import (
	"context"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/cmd/toold/wire"
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
	cfg.Exec, cfg.Tools, cfg.Memory, cfg.Log = d.runner, wire.Sourced{Registry: d.tools}, lists, d.log
	return mcp.New(cfg)
}
