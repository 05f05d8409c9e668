package web

import (
	"net/url"
	"time"

	"github.com/toold-dev/toold/sandbox/address"
	"github.com/toold-dev/toold/setting"
)

// Settings configure the tools fetch and web_search.
type Settings struct {
	Fetch          bool          `yaml:"fetch" default:"true" help:"offer the tool fetch" see:"tools/web.md"`
	AllowHosts     []string      `yaml:"allow_hosts" help:"hosts from which fetch may read; a leading dot includes all names below; an empty list allows every host"`
	DenyHosts      []string      `yaml:"deny_hosts" help:"hosts from which fetch may not read"`
	AllowAddresses []string      `yaml:"allow_addresses" help:"IP addresses and prefixes that fetch may reach in addition to the public network"`
	Timeout        time.Duration `yaml:"timeout" default:"30s" min:"1s" max:"10m" help:"longest time of a fetch or a search"`
	MaxBytes       int           `yaml:"max_bytes" default:"5242880" min:"1024" max:"67108864" help:"largest size of a page in bytes, after decompression"`
	Search         string        `yaml:"search" oneof:"brave searxng" help:"search engine of the tool web_search; if empty, the tool does not exist"`
	SearchURL      string        `yaml:"search_url" help:"URL of the search engine; if empty, the URL of Brave"`
	SearchKey      string        `yaml:"search_key" format:"reference" help:"replaces web.search_key_file: a reference secret://name to the key for Brave" see:"secrets.md"`
	SearchKeyFile  string        `yaml:"search_key_file" help:"file that contains the key for Brave"`
}

// Check implements [setting.Checker].
func (s *Settings) Check() (wrong setting.Problems) {
	if _, err := address.ParsePrefixes(s.AllowAddresses); err != nil {
		wrong.Add("allow_addresses", "%v", err)
	}
	if _, err := address.ParseHosts(s.AllowHosts); err != nil {
		wrong.Add("allow_hosts", "%v", err)
	}
	if _, err := address.ParseHosts(s.DenyHosts); err != nil {
		wrong.Add("deny_hosts", "%v", err)
	}
	u, err := url.Parse(s.SearchURL)
	named := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
	switch {
	case s.Search == "brave" && setting.Given(s.SearchKey, s.SearchKeyFile) != 1:
		wrong.Add("search_key", "brave requires a key: set a secret or a file that contains the key")
	case s.Search == "searxng" && s.SearchURL == "":
		wrong.Add("search_url", "searxng requires the URL of a server")
	case s.SearchURL != "" && !named:
		wrong.Add("search_url", "%q is not a URL such as https://search.example.com", s.SearchURL)
	}
	return wrong
}

// OwnKey reports whether the key of the search engine comes from a file. Otherwise it comes from the daemon's secrets.
func (s *Settings) OwnKey() bool { return s.Search == "brave" && s.SearchKeyFile != "" }
