package config

import (
	"time"
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
