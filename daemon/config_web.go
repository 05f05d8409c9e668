package daemon

import (
	"context"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/secret"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/web"
)

// Web is about the tools fetch and web_search.
type Web struct {
	Fetch          bool          `koanf:"fetch"`           // the tool fetch is there
	AllowHosts     []string      `koanf:"allow_hosts"`     // all that may be fetched from; a leading dot is all names below; none: every host
	DenyHosts      []string      `koanf:"deny_hosts"`      // taken from these; none: none
	AllowAddresses []string      `koanf:"allow_addresses"` // prefixes beside the public network; none: that alone
	Timeout        time.Duration `koanf:"timeout"`         // of a fetch or a search
	MaxBytes       int           `koanf:"max_bytes"`       // of a page, unpacked
	Search         string        `koanf:"search"`          // brave, searxng; "": there is no web_search
	SearchURL      string        `koanf:"search_url"`      // of the engine; "": brave's own
	SearchKey      string        `koanf:"search_key"`      // secret://name, read for each search; "": that of the file
	SearchKeyFile  string        `koanf:"search_key_file"` // whose text is the key; brave needs one
}

func defaultWeb() Web { return Web{Fetch: true, Timeout: 30 * time.Second, MaxBytes: 5 << 20} }

func (c *Config) validateWeb(wrong complaint) {
	w := &c.Web
	if _, err := address.ParsePrefixes(w.AllowAddresses); err != nil {
		wrong("web.allow_addresses", "%v", err)
	}
	for key, list := range map[string][]string{"web.allow_hosts": w.AllowHosts, "web.deny_hosts": w.DenyHosts} {
		if _, err := web.New(web.Config{AllowHosts: slices.Clone(list)}); err != nil {
			wrong(key, "%v", err)
		}
	}
	if w.Timeout < time.Second || w.Timeout > 10*time.Minute {
		wrong("web.timeout", "%s is not between 1s and 10m", durationText(w.Timeout))
	}
	if w.MaxBytes < 1<<10 || w.MaxBytes > 64<<20 {
		wrong("web.max_bytes", "%d is not between 1024 and %d", w.MaxBytes, 64<<20)
	}
	u, err := url.Parse(w.SearchURL)
	named := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
	switch {
	case !slices.Contains([]string{"", "brave", "searxng"}, w.Search):
		wrong("web.search", "%q is not brave or searxng", w.Search)
	case w.SearchKey != "" && !isReference(w.SearchKey):
		wrong("web.search_key", "is not a reference such as secret://brave")
	case w.Search == "brave" && (w.SearchKeyFile == "") == (w.SearchKey == ""):
		wrong("web.search_key", "brave needs a key: a secret, or the file of one")
	case w.Search == "searxng" && w.SearchURL == "":
		wrong("web.search_url", "searxng needs the URL of a server")
	case w.SearchURL != "" && !named:
		wrong("web.search_url", "%q is no URL such as https://search.example.com", w.SearchURL)
	}
}

// webTools makes fetch and web_search, as far as they are configured.
func webTools(cfg *Config, references expander, secrets *redact.Live) ([]tool.Tool, error) {
	w := &cfg.Web
	allowed, err := address.ParsePrefixes(w.AllowAddresses)
	if err != nil {
		return nil, usagef("web.allow_addresses: %w", err)
	}
	engine, err := w.provider(references, secrets)
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

// ownKey reports whether the key of the search engine is not one of the daemon's secrets.
func (w *Web) ownKey() bool { return w.Search == "brave" && w.SearchKeyFile != "" }

// provider is the search engine; nil without one. Its key is taken out of what calls tell before the engine has it.
func (w *Web) provider(references expander, secrets *redact.Live) (web.Provider, error) {
	switch {
	case w.SearchKey != "" && w.Search == "brave":
		return web.Brave(w.SearchURL, func(ctx context.Context) (string, error) {
			return references.Expand(ctx, secret.Everywhere, "web_search", "search_key", w.SearchKey)
		}), nil
	case w.Search == "brave":
		key, err := os.ReadFile(w.SearchKeyFile)
		if err != nil {
			return nil, usagef("web.search_key_file: %w", err)
		}
		text := strings.TrimSpace(string(key))
		if text == "" || strings.ContainsAny(text, "\r\n\x00") {
			return nil, usagef("web.search_key_file: %s has no key in one line", w.SearchKeyFile)
		}
		if err := knowKey(secrets, "web.search_key", text); err != nil {
			return nil, usagef("web.search_key_file: %w", err)
		}
		return web.Brave(w.SearchURL, web.FixedKey(text)), nil
	case w.Search == "searxng":
		return web.SearXNG(w.SearchURL), nil
	}
	return nil, nil
}
