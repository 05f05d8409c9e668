package cache

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// Defaults of a [Config].
const (
	DefaultEntries = 1000
	DefaultBytes   = 16 << 20
)

// A Config is what a cache works by.
type Config struct {
	Rules   []Rule
	Entries int   // results that are kept at most; 0 means [DefaultEntries]
	Bytes   int64 // that they take at most; 0 means [DefaultBytes]. No result may have more than a quarter of it
}

// A Rule says which results are kept, and for how long. The first that a call fits counts.
type Rule struct {
	Tools []string // globs on tool ids; required
	TTL   time.Duration
	Share Share
	// Documents whose change makes the results worthless.
	Documents []Document
	// OpenWorld also takes calls that reach what the operator does not own; then Tools are ids.
	OpenWorld bool
}

// runOf is the run of a call when what the rule keeps of it goes with the run.
func (r *Rule) runOf(in *hook.Input) string {
	if r.Share == ShareRun || slices.ContainsFunc(r.Documents, func(d Document) bool { return d.Scope == tool.RunScope }) {
		return in.Run.ID
	}
	return ""
}

// A Document names one that results depend on.
type Document struct {
	Scope tool.Scope
	Key   string
}

// Share says who else is given a result. The zero value is ShareCaller.
type Share string

// A result is never given to somebody else but with ShareNamespace.
const (
	ShareRun       Share = "run"    // the same caller, in the same run
	ShareThread    Share = "thread" // the same caller, in the same thread
	ShareCaller    Share = "caller"
	ShareNamespace Share = "namespace" // every caller of the namespace
)

const maxTTL = 24 * time.Hour

func (c *Config) fill() {
	if c.Entries == 0 {
		c.Entries = DefaultEntries
	}
	if c.Bytes == 0 {
		c.Bytes = DefaultBytes
	}
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules {
		if c.Rules[i].Share == "" {
			c.Rules[i].Share = ShareCaller
		}
	}
}

func (c *Config) check() error {
	var problems []error
	if c.Entries < 0 || c.Entries > 1_000_000 {
		problems = append(problems, fmt.Errorf("entries: %d is not between 1 and 1000000", c.Entries))
	}
	if c.Bytes < 0 || c.Bytes > 1<<34 {
		problems = append(problems, fmt.Errorf("bytes: %d is not between 1 and %d", c.Bytes, int64(1)<<34))
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		wrong := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("rule %d: %s", i+1, fmt.Sprintf(format, args...)))
		}
		if len(r.Tools) == 0 {
			wrong("tools: name those whose answers depend on their arguments alone")
		}
		for _, g := range r.Tools {
			if _, err := path.Match(g, ""); err != nil || g == "" {
				wrong("tools: %q is not a pattern of *, ? and [classes]", g)
			}
			if r.OpenWorld && strings.ContainsAny(g, "*?[") {
				wrong("tools: %q is a pattern; with open_world each tool is named", g)
			}
		}
		if r.TTL < time.Second || r.TTL > maxTTL {
			wrong("ttl: %v is not between 1s and %v", r.TTL, maxTTL)
		}
		if !slices.Contains([]Share{"", ShareRun, ShareThread, ShareCaller, ShareNamespace}, r.Share) {
			wrong("share: %q is not run, thread, caller or namespace", r.Share)
		}
		for _, d := range r.Documents {
			if !slices.Contains([]tool.Scope{tool.RunScope, tool.ThreadScope, tool.NamespaceScope}, d.Scope) || d.Key == "" {
				wrong("documents: want a scope (RUN, THREAD, NAMESPACE) and a key")
			}
		}
	}
	return errors.Join(problems...)
}

// ReadsDocuments reports whether asking the cache may read the journal.
func (c *Config) ReadsDocuments() bool {
	return slices.ContainsFunc(c.Rules, func(r Rule) bool { return len(r.Documents) > 0 })
}

// ruleFor returns the rule of a call; nil when its result is not to be kept. What belongs to a run or thread needs one.
func ruleFor(rules []Rule, in *hook.Input) *Rule {
	if in.Assessment.Mutability != tool.ReadOnly {
		return nil
	}
	for i := range rules {
		r := &rules[i]
		if in.Assessment.OpenWorld && !r.OpenWorld || r.Share == ShareRun && in.Run.ID == "" || r.Share == ShareThread && in.Run.Thread == "" {
			continue
		}
		if slices.ContainsFunc(r.Tools, func(g string) bool { return hook.Glob(g, in.Descriptor.ID) }) {
			return r
		}
	}
	return nil
}
