package main

import (
	"time"

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
