package main

import (
	"time"

	"github.com/toold-dev/toold/plugins/loopguard"
	"github.com/toold-dev/toold/plugins/ratelimit"
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
