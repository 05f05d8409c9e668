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

// ownKey reports whether the key of the search engine is not one of the daemon's secrets.
func (w *Web) ownKey() bool { return w.Search == "brave" && w.SearchKeyFile != "" }
