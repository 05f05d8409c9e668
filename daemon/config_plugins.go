package daemon

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"

	"github.com/toold-dev/toold/plugins/cache"
	"github.com/toold-dev/toold/plugins/loopguard"
	"github.com/toold-dev/toold/plugins/ratelimit"
	"github.com/toold-dev/toold/plugins/remind"
	"github.com/toold-dev/toold/tool"
)

// RateLimit is one limit of the plugin ratelimit.
type RateLimit struct {
	Name       string        `koanf:"name"`       // shown to the model; required, once
	Tools      []string      `koanf:"tools"`      // globs on tool ids; none: all
	Namespaces []string      `koanf:"namespaces"` // none: all
	Principals []string      `koanf:"principals"` // none: all
	By         []string      `koanf:"by"`         // namespace, principal, tool, run; none: one bucket for all
	Calls      int           `koanf:"calls"`      // in Per; required
	Per        time.Duration `koanf:"per"`        // required
	Burst      int           `koanf:"burst"`      // 0: Calls
}

// Audit is what the plugin audit keeps.
type Audit struct {
	Enabled     bool          `koanf:"enabled"`
	Checkpoints string        `koanf:"checkpoints"` // file that they are appended to; "": audit/checkpoints.jsonl in the data directory
	Every       time.Duration `koanf:"every"`       // between two checkpoints
}

// auditKeyFile is the key with which checkpoints are signed.
func (c *Config) auditKeyFile() string { return filepath.Join(c.Data, "audit", "key") }

func (c *Config) checkpointFile() string {
	return cmp.Or(c.Audit.Checkpoints, filepath.Join(c.Data, "audit", "checkpoints.jsonl"))
}

// Loopguard is what the plugin loopguard counts within a run.
type Loopguard struct {
	Repeats  int           `koanf:"repeats"`  // of one call among the last Window ones; 0: any number
	Window   int           `koanf:"window"`   // calls; 0: 20
	Except   []string      `koanf:"except"`   // globs on ids of tools whose calls may repeat
	Calls    int           `koanf:"calls"`    // in all; 0: any number
	Failures int           `koanf:"failures"` // of one tool in a row; 0: any number
	Idle     time.Duration `koanf:"idle"`     // after which a run is forgotten; 0: 1 h
	Runs     int           `koanf:"runs"`     // that are remembered; 0: 10,000
}

// Cache is what the plugin cache keeps.
type Cache struct {
	Rules   []CacheRule `koanf:"rules"`   // which results; none: none
	Entries int         `koanf:"entries"` // at most; 0: 1,000
	Bytes   int         `koanf:"bytes"`   // at most; 0: 16 MiB
}

// CacheRule says which results are kept.
type CacheRule struct {
	Tools     []string      `koanf:"tools"`      // globs on tool ids; required
	TTL       time.Duration `koanf:"ttl"`        // required
	Share     string        `koanf:"share"`      // run, thread, caller, namespace; "": caller
	Documents []string      `koanf:"documents"`  // SCOPE/key, on whose revisions the result depends; none: on none
	OpenWorld bool          `koanf:"open_world"` // also what reaches the open world; then Tools are ids
}

// Reminder is one text of the plugin remind.
type Reminder struct {
	Name      string        `koanf:"name"`      // told in the metadata of results; required, once
	Text      string        `koanf:"text"`      // what the model reads; required
	Tools     []string      `koanf:"tools"`     // globs on tool ids; none: all
	Arguments string        `koanf:"arguments"` // regular expression; "": any
	Result    string        `koanf:"result"`    // regular expression; "": any
	On        string        `koanf:"on"`        // SUCCEEDED, FAILED; "": both
	Cooldown  time.Duration `koanf:"cooldown"`  // within a run; 0: none
}

// Compact is what the plugin compact makes shorter.
type Compact struct {
	Tools []string `koanf:"tools"` // globs on tool ids; none: none
	From  int      `koanf:"from"`  // bytes, from which a message is looked at; 0: 4 KiB
}

// guards reports whether anything is counted.
func (l *Loopguard) guards() bool { return l.Repeats+l.Calls+l.Failures > 0 }

func (c *Config) ratelimit() ratelimit.Config {
	var out ratelimit.Config
	for _, l := range c.Ratelimit {
		limit := ratelimit.Limit{
			Name: l.Name, Tools: l.Tools, Namespaces: l.Namespaces, Principals: l.Principals, Calls: l.Calls, Per: l.Per, Burst: l.Burst,
		}
		for _, by := range l.By {
			limit.By = append(limit.By, ratelimit.By(by))
		}
		out.Limits = append(out.Limits, limit)
	}
	return out
}

func (c *Config) loopguard() loopguard.Config { return loopguard.Config(c.Loopguard) }

func (c *Config) cache() cache.Config {
	out := cache.Config{Entries: c.Cache.Entries, Bytes: int64(c.Cache.Bytes)}
	for _, r := range c.Cache.Rules {
		rule := cache.Rule{Tools: r.Tools, TTL: r.TTL, Share: cache.Share(r.Share), OpenWorld: r.OpenWorld}
		for _, d := range r.Documents {
			scope, key, _ := strings.Cut(d, "/")
			rule.Documents = append(rule.Documents, cache.Document{Scope: tool.Scope(scope), Key: key})
		}
		out.Rules = append(out.Rules, rule)
	}
	return out
}

func (c *Config) remind() remind.Config {
	var out remind.Config
	for _, r := range c.Remind {
		out.Reminders = append(out.Reminders, remind.Reminder{
			Name: r.Name, Text: r.Text, Tools: r.Tools, Arguments: r.Arguments, Result: r.Result, On: remind.On(r.On), Cooldown: r.Cooldown,
		})
	}
	return out
}
