package cache

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/setting"
	"github.com/toold-dev/toold/tool"
)

// A Config configures a cache.
type Config struct {
	Rules   []Rule `yaml:"rules" help:"read-only calls whose results are stored and returned to later calls; the first rule that matches applies" see:"plugins/cache.md"`
	Entries int    `yaml:"entries" default:"1000" min:"1" max:"1000000" help:"largest number of stored results"`
	Bytes   int64  `yaml:"bytes" default:"16777216" min:"1" max:"17179869184" help:"largest size in bytes of all stored results; one result may have at most a quarter of it"`
}

// A Rule says which results are stored, and for how long. The first rule that matches a call applies.
type Rule struct {
	Tools     []string      `yaml:"tools" required:"true" format:"glob" help:"globs on the ids of tools whose results depend only on their arguments"`
	TTL       time.Duration `yaml:"ttl" min:"1s" max:"1d" help:"time that a result is kept"`
	Share     Share         `yaml:"share" default:"caller" oneof:"run thread caller namespace" help:"callers that get a result: the same caller in the same run, in the same thread, or anywhere; or all callers of the namespace"`
	Documents []Document    `yaml:"documents" help:"documents whose change makes the stored results invalid, as RUN/key, THREAD/key or NAMESPACE/key"`
	OpenWorld bool          `yaml:"open_world" help:"also store results of calls that reach systems outside the operator's control; tools must then be ids, not globs"`
}

// runOf returns the run at whose end a stored result is removed, or "".
func (r *Rule) runOf(in *hook.Input) string {
	if r.Share == ShareRun || slices.ContainsFunc(r.Documents, func(d Document) bool { return d.Scope == tool.RunScope }) {
		return in.Run.ID
	}
	return ""
}

// A Document names a document that results depend on.
type Document struct {
	Scope tool.Scope
	Key   string
}

// UnmarshalText parses SCOPE/key.
func (d *Document) UnmarshalText(text []byte) error {
	scope, key, _ := strings.Cut(string(text), "/")
	*d = Document{tool.Scope(scope), key}
	if !slices.Contains([]tool.Scope{tool.RunScope, tool.ThreadScope, tool.NamespaceScope}, d.Scope) || key == "" {
		return fmt.Errorf("%q is not RUN/key, THREAD/key or NAMESPACE/key", text)
	}
	return nil
}

// String returns the text that UnmarshalText parses.
func (d Document) String() string { return string(d.Scope) + "/" + d.Key }

// Share says which calls may get a stored result. The zero value is ShareCaller.
type Share string

// The values of Share. Only ShareNamespace lets other callers get a result.
const (
	ShareRun       Share = "run"    // the same caller, in the same run
	ShareThread    Share = "thread" // the same caller, in the same thread
	ShareCaller    Share = "caller"
	ShareNamespace Share = "namespace" // every caller of the namespace
)

// Check implements [setting.Checker].
func (r *Rule) Check() (wrong setting.Problems) {
	for _, g := range r.Tools {
		if r.OpenWorld && strings.ContainsAny(g, "*?[") {
			wrong.Add("tools", "%q is a pattern; with open_world, name each tool", g)
		}
	}
	for _, d := range r.Documents {
		if err := new(Document).UnmarshalText([]byte(d.String())); err != nil {
			wrong.Add("documents", "%v", err)
		}
	}
	return wrong
}

// ReadsDocuments reports whether Check may read documents from the journal.
func (c *Config) ReadsDocuments() bool {
	return slices.ContainsFunc(c.Rules, func(r Rule) bool { return len(r.Documents) > 0 })
}

// ruleFor returns the rule of a call, or nil when its result must not be stored. When a rule is for runs or threads, it does not apply to a
// call without a run or thread.
func ruleFor(rules []Rule, in *hook.Input) *Rule {
	if in.Assessment.Mutability != tool.ReadOnly {
		return nil
	}
	for i := range rules {
		r := &rules[i]
		if in.Assessment.OpenWorld && !r.OpenWorld || r.Share == ShareRun && in.Run.ID == "" || r.Share == ShareThread && in.Run.Thread == "" {
			continue
		}
		if tool.AnyGlob(r.Tools, in.Descriptor.ID) {
			return r
		}
	}
	return nil
}
