package ratelimit

import (
	"time"

	"github.com/toold-dev/toold/setting"
)

// DefaultBuckets is the default number of buckets of a limit. A bucket takes about 300 bytes.
const DefaultBuckets = 65536

// A Config configures a limiter.
type Config struct {
	Limits  []Limit `yaml:"limits"`
	Buckets int     // maximum number of buckets of each limit; 0 means [DefaultBuckets]
}

// A Limit allows a number of calls in a period.
type Limit struct {
	Name       string        `yaml:"name" required:"true" unique:"true" help:"name that the model reads, at most 64 bytes"`
	Tools      []string      `yaml:"tools" format:"glob" help:"globs on tool ids; an empty list matches every tool"`
	Namespaces []string      `yaml:"namespaces" help:"namespaces of calls; an empty list matches every namespace"`
	Principals []string      `yaml:"principals" help:"callers; an empty list matches every caller"`
	By         []By          `yaml:"by" unique:"true" oneof:"namespace principal tool run" help:"dimensions that have separate limits, for example one for each principal; with an empty list all calls share one limit"`
	Calls      int           `yaml:"calls" min:"1" max:"1000000" help:"number of calls that are allowed in one period; the setting per is the length of a period"`
	Per        time.Duration `yaml:"per" min:"1ms" max:"30d" help:"length of a period, such as 1m"`
	Burst      int           `yaml:"burst" default:"0" min:"0" max:"1000000" help:"largest number of calls that may arrive at once; 0 means the same number as calls"`
}

// By is a property by which a limit counts.
type By string

// Principals and runs are counted within their namespace.
const (
	ByNamespace By = "namespace"
	ByPrincipal By = "principal"
	ByTool      By = "tool"
	ByRun       By = "run"
)

// Check implements [setting.Checker].
func (c *Config) Check() (wrong setting.Problems) {
	if c.Buckets < 0 {
		wrong.Add("buckets", "%d is negative", c.Buckets)
	}
	return wrong
}

// Check implements [setting.Checker].
func (l *Limit) Check() (wrong setting.Problems) {
	if len(l.Name) > 64 {
		wrong.Add("name", "has %d bytes; at most 64 are allowed", len(l.Name))
	}
	return wrong
}
