package ratelimit

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"
)

// DefaultBuckets is how many buckets a limit keeps when the configuration does not say. One has about 300 bytes.
const DefaultBuckets = 65536

// A Config is what a limiter works by.
type Config struct {
	Limits  []Limit
	Buckets int // that each limit keeps at most; 0 means [DefaultBuckets]
}

// A Limit is so many calls in a time.
type Limit struct {
	Name string // shown to the model; required, once
	// Of which calls: each list that is not empty must hold.
	Tools      []string // globs on tool ids
	Namespaces []string
	Principals []string
	// By is what has a bucket of its own, any of ByNamespace, ByPrincipal, ByTool and ByRun; none: all calls share one.
	By    []By
	Calls int           // in Per; required
	Per   time.Duration // required
	Burst int           // calls that may come at once; 0 means Calls
}

// By is what a limit counts by.
type By string

// Principals and runs are counted within their namespace.
const (
	ByNamespace By = "namespace"
	ByPrincipal By = "principal"
	ByTool      By = "tool"
	ByRun       By = "run"
)

// The most that a limit may say.
const (
	maxCalls = 1_000_000
	maxPer   = 30 * 24 * time.Hour
)

// check says everything that is wrong.
func (c *Config) check() error {
	var problems []error
	seen := map[string]bool{}
	for i, m := range c.Limits {
		wrong := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("limit %d (%q): %s", i+1, m.Name, fmt.Sprintf(format, args...)))
		}
		if m.Name == "" || len(m.Name) > 64 {
			wrong("want a name of at most 64 bytes; the model reads it")
		}
		if seen[m.Name] {
			wrong("the name stands twice")
		}
		seen[m.Name] = true
		if m.Calls < 1 || m.Calls > maxCalls {
			wrong("calls: %d is not between 1 and %d", m.Calls, maxCalls)
		}
		if m.Per < time.Millisecond || m.Per > maxPer {
			wrong("per: %v is not between 1ms and %v", m.Per, maxPer)
		}
		if m.Burst < 0 || m.Burst > maxCalls {
			wrong("burst: %d is not between 1 and %d", m.Burst, maxCalls)
		}
		for _, g := range m.Tools {
			if _, err := path.Match(g, ""); err != nil || g == "" {
				wrong("tools: %q is not a pattern of *, ? and [classes]", g)
			}
		}
		for j, by := range m.By {
			if !slices.Contains([]By{ByNamespace, ByPrincipal, ByTool, ByRun}, by) {
				wrong("by: %q is not namespace, principal, tool or run", by)
			}
			if slices.Contains(m.By[:j], by) {
				wrong("by: %q stands twice", by)
			}
		}
	}
	if c.Buckets < 0 {
		problems = append(problems, fmt.Errorf("buckets: %d is less than none", c.Buckets))
	}
	return errors.Join(problems...)
}
