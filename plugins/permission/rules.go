package permission

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// An action is the effect of a rule on a call.
type action string

const (
	allow     action = "allow"
	ask       action = "ask"
	askAlways action = "ask always"
	deny      action = "deny"
	block     action = "block"
)

// weightiest lists the actions, strongest first.
var weightiest = []action{block, deny, askAlways, ask, allow}

func (a action) asks() bool { return a == ask || a == askAlways }

func (a action) refuses() bool { return a == deny || a == block }

// tiers lists the tiers, mildest first.
var tiers = []tool.Tier{tool.Observe, tool.Confirm, tool.Escalate}

// maxExpiry is the longest lifetime of a ticket that a file may set.
const maxExpiry = 30 * 24 * time.Hour

// maxCount is the largest number of approvals that a rule may require.
const maxCount = 100

// Rules are a parsed rule file. They are immutable.
type Rules struct {
	operator   *layer
	namespaces map[string]*layer
	modes      map[string]*layer // rule sets of the operator
	approvers  approvers
	expiresIn  time.Duration // 0 means the same time as for other tickets of the daemon
	unattended action        // action for a question in an unattended run: deny or ask
	index      index
	file       string // name of the file; this and the next two fields are empty for the default rules
	text       []byte
	version    string // beginning of the file's SHA-256
	slots      int    // number of hits to count: one for each rule, and one for each tier of each layer
}

// Version returns the first 16 hexadecimal digits of the file's SHA-256, or "" for the default rules.
func (r *Rules) Version() string { return r.version }

// Text returns the text of the file, or nil for the default rules and for nil. The caller must not change it.
func (r *Rules) Text() []byte {
	if r == nil {
		return nil
	}
	return r.text
}

// A layer is a group of rules: those of the operator, a namespace, a thread or a run.
type layer struct {
	name     string
	rules    []*rule
	byTier   map[tool.Tier]action // actions for calls that no rule matches; for a tier that is missing, the next layers decide
	chosenBy []string             // roles that may choose the layer; set only when the layer is a mode
	slot     int                  // slot of the first tier
}

// A rule matches a call when each of its lists that is not empty matches the call.
type rule struct {
	name         string
	line, column int // 0 when the rule is not from a file
	slot         int
	action       action
	tools        []*pattern
	tiers        []tool.Tier
	sources      []string
	callers      []string // globs for subjects
	when         *expression
	reason       string

	fourEyes  bool
	approvers approvers
	count     int // required approvals; 0 means one
	expiresIn time.Duration
	instead   bool     // approvers may answer in the tool's place
	remember  []string // kinds of options; nil means all
}

// Default returns the rules of a gate without a rule file.
func Default() *Rules {
	r := &Rules{
		operator: &layer{
			name: operatorLayer, byTier: map[tool.Tier]action{tool.Observe: allow, tool.Confirm: ask, tool.Escalate: ask},
		},
		approvers:  approvers{roles: []string{"approver"}},
		unattended: deny,
	}
	r.number()
	return r
}

// number gives each rule and each tier of a layer its slot.
func (r *Rules) number() {
	r.slots = 0
	for _, l := range r.layers() {
		for _, one := range l.rules {
			one.slot = r.slots
			r.slots++
		}
		l.slot = r.slots
		r.slots += len(tiers)
	}
}

// layers returns all layers: those of the modes and namespaces, in the order of their names, then the operator's.
func (r *Rules) layers() (all []*layer) {
	for _, layers := range []map[string]*layer{r.modes, r.namespaces} {
		for _, name := range slices.Sorted(maps.Keys(layers)) {
			all = append(all, layers[name])
		}
	}
	return append(all, r.operator)
}

// The name of the operator's layer, and the beginning of the names of the layers of namespaces.
const (
	operatorLayer  = "operator"
	namespaceLayer = "namespace "
)

// approvers are the principals that may answer a question. Such a principal has one of the roles, and belongs to one of the groups. No
// roles means the roles of the file. No groups means the groups that the daemon's configuration has for the namespace.
type approvers struct{ roles, groups []string }

// or returns a, with the roles or groups of standard where a has none.
func (a approvers) or(standard approvers) approvers {
	if len(a.roles) == 0 {
		a.roles = standard.roles
	}
	if len(a.groups) == 0 {
		a.groups = standard.groups
	}
	return a
}

// and returns the approvers that may answer both questions. When these have no common role or group, it returns operators.
func (a approvers) and(b approvers) approvers {
	both := approvers{common(a.roles, b.roles), common(a.groups, b.groups)}
	if len(a.groups) == 0 || len(b.groups) == 0 {
		both.groups = slices.Concat(a.groups, b.groups)
	}
	if len(both.roles) == 0 || len(both.groups) == 0 && len(a.groups) > 0 {
		return approvers{roles: []string{"operator"}}
	}
	return both
}

func common(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(name string) bool { return !slices.Contains(b, name) })
}

// A subject is a call, or one simple command of a call. Rules are compared with it.
type subject struct {
	in         *hook.Input
	tier       tool.Tier
	primary    string
	paths      Paths // nil means that rules see only the text of paths
	isCommand  bool  // the primary argument is a command
	understood bool  // the parts describe the whole command
	hasPart    bool
	part       Part // the current simple command
	alsoWhole  bool // restricting rules are also compared with the whole command
	asPart     bool // expressions see the part instead of the whole command
	reading    int  // how expressions see paths: 0 as sent, 1 cleaned, 2 without links
	unclear    bool // the subject is the part of a command that cannot be read; every restricting rule may match it
}

// A decision is the result of the rules for a subject.
type decision struct {
	action    action
	rule      *rule    // nil when no rule decided
	pattern   *pattern // pattern of the rule that matched; nil when the rule applies to all tools
	layer     *layer
	mode      string // the mode that decided; "" when none did
	kept      string // ID of the remembered answer that decided; "" when none did
	part      string // the simple command that the decision is about; "" means the whole call
	unclear   bool   // the decision is about the part of a command that cannot be read
	tier      tool.Tier
	fourEyes  bool
	approvers approvers
	count     int
	expiresIn time.Duration
	instead   bool
	remember  []string
	version   string // version of the rules
}

// alone reports whether one person's approval is enough. Only then may a remembered answer or a mode replace it.
func (d *decision) alone() bool { return !d.fourEyes && d.count < 2 }

// replacement returns a text for the record that says what replaced an approval. It returns "" when no approval was needed.
func (d *decision) replacement() string {
	switch {
	case d.kept != "":
		return "the remembered answer " + d.kept
	case d.mode != "":
		return "the mode " + d.mode
	}
	return ""
}

// unanswerable returns the reason why a question in an unattended run is denied.
func (d *decision) unanswerable() string {
	text := "this call requires approval, and no person is present to approve it"
	if reason := d.reason(); reason != "" {
		text += ". " + reason
	}
	return text
}

// name returns the name of the rule that decided, or "" when none did.
func (d *decision) name() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.name
}

func (d *decision) reason() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.reason
}

// because returns the text that says to the model why a call is refused.
func (d *decision) because() string {
	switch {
	case d.mode == modePlan:
		return "only read-only calls are allowed while planning"
	case d.mode != "":
		return fmt.Sprintf("the permission mode %q does not exist here", clip(d.mode, 40))
	case d.rule == nil:
		return fmt.Sprintf("calls of the tier %s are not allowed here", d.tier)
	case d.unclear:
		return fmt.Sprintf("this command cannot be analysed completely, so the rule %q may forbid it; write a simpler command", d.rule.name)
	case d.rule.reason != "":
		return d.rule.reason
	default:
		return fmt.Sprintf("not allowed by the rule %q", d.rule.name)
	}
}
