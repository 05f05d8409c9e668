package config

import (
	"net/url"
	"slices"
	"time"

	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/tools/web"
)

// Web is about the tools fetch and web_search.
type Web struct {
	Fetch          bool          `yaml:"fetch" default:"true" help:"offer the tool fetch" see:"tools/web.md"`
	AllowHosts     []string      `yaml:"allow_hosts" help:"hosts that may be fetched from, a leading dot for all names below; none is every host"`
	DenyHosts      []string      `yaml:"deny_hosts" help:"hosts taken from these"`
	AllowAddresses []string      `yaml:"allow_addresses" help:"addresses and prefixes that may be reached beside the public network"`
	Timeout        time.Duration `yaml:"timeout" default:"30s" min:"1s" max:"10m" help:"time of a fetch or a search"`
	MaxBytes       int           `yaml:"max_bytes" default:"5242880" min:"1024" max:"67108864" help:"bytes of a page, unpacked"`
	Search         string        `yaml:"search" oneof:"brave searxng" help:"engine of the tool web_search; empty is no such tool"`
	SearchURL      string        `yaml:"search_url" help:"URL of the engine; empty is that of Brave"`
	SearchKey      string        `yaml:"search_key" format:"reference" help:"secret://name of the key of brave, in place of a file" see:"secrets.md"`
	SearchKeyFile  string        `yaml:"search_key_file" help:"file of the key of brave"`
}

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
	u, err := url.Parse(w.SearchURL)
	named := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
	switch {
	case w.Search == "brave" && (w.SearchKeyFile == "") == (w.SearchKey == ""):
		wrong("web.search_key", "brave needs a key: a secret, or the file of one")
	case w.Search == "searxng" && w.SearchURL == "":
		wrong("web.search_url", "searxng needs the URL of a server")
	case w.SearchURL != "" && !named:
		wrong("web.search_url", "%q is no URL such as https://search.example.com", w.SearchURL)
	}
}

// ownKey reports whether the key of the search engine is not one of the daemon's secrets.
func (w *Web) ownKey() bool { return w.Search == "brave" && w.SearchKeyFile != "" }
