package permission

import (
	"fmt"
	"time"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// An action is what a rule does with a call.
type action string

const (
	allow     action = "allow"
	ask       action = "ask"
	askAlways action = "ask always"
	deny      action = "deny"
	block     action = "block"
)

// weightiest lists the actions in the order in which they beat each other.
var weightiest = []action{block, deny, askAlways, ask, allow}

// asks reports whether the action is a question.
func (a action) asks() bool { return a == ask || a == askAlways }

// refuses reports whether the action ends the call.
func (a action) refuses() bool { return a == deny || a == block }

// tiers lists the tiers from the mildest on.
var tiers = []tool.Tier{tool.Observe, tool.Confirm, tool.Escalate}

// maxExpiry is the longest that a file may let a ticket wait.
const maxExpiry = 30 * 24 * time.Hour

// maxCount is how many people a rule may ask for.
const maxCount = 100

// Rules are a parsed rule file. They never change.
type Rules struct {
	operator   *layer
	namespaces map[string]*layer
	modes      map[string]*layer // rule sets that the operator made
	approvers  []string
	expiresIn  time.Duration // 0: as long as any ticket of the daemon
	unattended action        // deny, or ask: what happens to a question without anybody to answer it
	index      index
	version    string // beginning of the SHA-256 of the file; empty of the default
}

// A layer is rules that hold together: the operator's, those of a namespace, of a thread or of a run.
type layer struct {
	name     string
	rules    []*rule
	byTier   map[tool.Tier]action // for calls that no rule of any layer names; a tier that is not in it is left to the layers behind
	chosenBy []string             // of a mode: the roles that may choose it
}

// A rule holds for a call when each of its lists that is not empty does.
type rule struct {
	name         string
	line, column int // 0 when it is in no file
	action       action
	tools        []*pattern
	tiers        []tool.Tier
	sources      []string
	callers      []string // globs on subjects
	when         *expression
	reason       string

	fourEyes  bool
	approvers []string
	count     int // people who have to agree; 0 is one
	expiresIn time.Duration
	remember  []string // kinds of options; nil is all
}

// Default returns the rules of a gate that was given none.
func Default() *Rules {
	return &Rules{
		operator: &layer{
			name: operatorLayer, byTier: map[tool.Tier]action{tool.Observe: allow, tool.Confirm: ask, tool.Escalate: ask},
		},
		approvers:  []string{"approver"},
		unattended: deny,
	}
}

const operatorLayer = "operator"

// A subject is what rules look at: a call, or one simple command of it.
type subject struct {
	in         *hook.Input
	tier       tool.Tier
	primary    string
	paths      Paths // nil: nobody knows
	isCommand  bool  // the primary argument is a command
	understood bool  // and all that it does is in its parts
	hasPart    bool
	part       Part // the simple command at hand
	alsoWhole  bool // what takes away is held against the whole command too
	asPart     bool // expressions see the part in the place of the whole
	reading    int  // of paths, which expressions see: 0 as they were sent, 1 clean, 2 without links
	unclear    bool // what else the command does, which nobody can read: it may be whatever a rule takes away
}

// A decision is what rules say about a subject.
type decision struct {
	action    action
	rule      *rule    // nil when no rule decided
	pattern   *pattern // of the rule; nil when it names no tool
	layer     *layer
	mode      string // that decided; "" when none did
	kept      string // the kept answer that decided; "" when none did
	part      string // the simple command that it is about; "" when it is about the whole call
	unclear   bool   // it is about what cannot be read of a command
	tier      tool.Tier
	fourEyes  bool
	approvers []string
	count     int
	expiresIn time.Duration
	remember  []string
	version   string // of the rules
}

// alone reports whether one person's yes is enough. Only then may an earlier answer replace it.
func (d *decision) alone() bool { return !d.fourEyes && d.count < 2 }

// inPlace says what replaces an answer, for the record; "" when nobody had to be asked.
func (d *decision) inPlace() string {
	switch {
	case d.kept != "":
		return "the kept answer " + d.kept
	case d.mode != "":
		return "the mode " + d.mode
	}
	return ""
}

// unanswerable says why a question is a refusal.
func (d *decision) unanswerable() string {
	text := "this call needs a yes, and nobody is there to give it"
	if reason := d.reason(); reason != "" {
		text += ". " + reason
	}
	return text
}

// name returns the name of the rule that decided; "" when none did.
func (d *decision) name() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.name
}

// reason returns the reason that the rule gives.
func (d *decision) reason() string {
	if d.rule == nil {
		return ""
	}
	return d.rule.reason
}

// because says why a call is refused, for the model.
func (d *decision) because() string {
	switch {
	case d.mode == modePlan:
		return "only calls that change nothing are allowed while planning"
	case d.mode != "":
		return fmt.Sprintf("the permission mode %q does not exist here", clip(d.mode, 40))
	case d.rule == nil:
		return fmt.Sprintf("calls of the tier %s are not allowed here", d.tier)
	case d.unclear:
		return fmt.Sprintf("this command cannot be read in full, so that it may be one which the rule %q forbids; write it in plain words", d.rule.name)
	case d.rule.reason != "":
		return d.rule.reason
	default:
		return fmt.Sprintf("not allowed by the rule %q", d.rule.name)
	}
}
