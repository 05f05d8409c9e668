package daemon

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/web"
)

// webTools creates the tools fetch and web_search if they are configured.
func webTools(cfg *config.Config, version string, references expander, secrets *redact.Live) ([]tool.Tool, error) {
	w := &cfg.Web
	allowed, err := address.ParsePrefixes(w.AllowAddresses)
	if err != nil {
		return nil, config.Errorf("web.allow_addresses: %w", err)
	}
	engine, err := searchEngine(w, references, secrets)
	if err != nil {
		return nil, err
	}
	tools, err := web.New(web.Config{
		Addresses: address.Rules{Allow: allowed}, AllowHosts: slices.Clone(w.AllowHosts), DenyHosts: slices.Clone(w.DenyHosts),
		Timeout: w.Timeout, MaxBytes: int64(w.MaxBytes), UserAgent: "toold/" + version, Search: engine,
	})
	if err != nil || w.Fetch {
		return tools, err
	}
	return tools[1:], nil
}

// searchEngine returns the configured search engine, or nil. It redacts the engine's key before the engine gets it.
func searchEngine(w *web.Settings, references expander, secrets *redact.Live) (web.Provider, error) {
	switch {
	case w.SearchKey != "" && w.Search == "brave":
		return web.Brave(w.SearchURL, func(ctx context.Context) (string, error) {
			return references.Expand(ctx, secret.Everywhere, "web_search", "search_key", w.SearchKey)
		}), nil
	case w.Search == "brave":
		key, err := os.ReadFile(w.SearchKeyFile)
		if err != nil {
			return nil, config.Errorf("web.search_key_file: %w", err)
		}
		text := strings.TrimSpace(string(key))
		if text == "" || strings.ContainsAny(text, "\r\n\x00") {
			return nil, config.Errorf("web.search_key_file: %s must contain a key in one line", w.SearchKeyFile)
		}
		if err := knowKey(secrets, "web.search_key", text); err != nil {
			return nil, config.Errorf("web.search_key_file: %w", err)
		}
		return web.Brave(w.SearchURL, web.FixedKey(text)), nil
	case w.Search == "searxng":
		return web.SearXNG(w.SearchURL), nil
	}
	return nil, nil
}
