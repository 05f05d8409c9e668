package gating

import (
	"cmp"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A Basis identifies the tool, the isolation and the arguments for which a question was asked or an attempt started. A pipeline run
// computes it once, when the arguments are final. The journal stores [Basis.Digest], which changes when any of the three changes.
type Basis struct {
	ToolDigest string
	Isolation  tool.Isolation // isolation that the tool requires
	Network    string         // network access that the tool requires
	Arguments  tool.Arguments // effective arguments
	// Unwritten means that the tool may start before the journal has stored the intent of the attempt.
	Unwritten bool
}

// NewBasis returns the Basis of a call of the tool d with the arguments args.
func NewBasis(toolDigest string, d *tool.Descriptor, args tool.Arguments) Basis {
	return Basis{
		ToolDigest: toolDigest, Isolation: cmp.Or(d.RequiredIsolation, tool.IsolationNone), Network: cmp.Or(d.RequiredNetwork, "none"),
		Arguments: args,
	}
}

// With returns a copy of the basis with other arguments.
func (b Basis) With(args tool.Arguments) Basis {
	b.Arguments = args
	return b
}

// Digest returns the digest of the basis. The digest also covers the texts and the expiry of the question s.
func (b Basis) Digest(c *call.Call, s *call.Suspension) string {
	a := call.Approval{
		Namespace: c.Namespace, CallID: c.ID, SuspensionID: s.ID, Caller: c.Caller.Subject, OnBehalfOf: c.OnBehalfOf,
		Tool: c.Tool, ToolDigest: b.ToolDigest, Arguments: b.Arguments, ResumeMode: s.ResumeMode,
		Isolation: string(b.Isolation), Network: b.Network,
		ExpiresAt: s.ExpiresAt.Time(), Message: s.Message, Parameters: s.Parameters, ResponseSchema: s.ResponseSchema,
	}
	return a.Digest()
}

// Shown reports whether the tool and its required isolation equal those that the question showed. limit is the maximum size of the tool's
// arguments in bytes.
func (b Basis) Shown(c *call.Call, s *call.Suspension, limit int) bool {
	shown, err := call.Parse(s.Pending.Arguments).Arguments(limit)
	return err == nil && s.Digest == b.With(shown).Digest(c, s)
}

// Holds reports whether the decision d on the question s was given for this basis, including its arguments. limit is as in [Basis.Shown].
func (b Basis) Holds(c *call.Call, s *call.Suspension, d *tool.Decision, limit int) bool {
	if d.AppliesTo == "" { // No person approved these arguments.
		return b.Shown(c, s, limit)
	}
	return d.AppliesTo == b.Digest(c, s)
}

// Answer returns the newest decision on a question of a gate, if the decision was given for exactly this basis. Otherwise it returns nil.
func (b Basis) Answer(c *call.Call, gate string) *tool.Decision {
	for _, r := range slices.Backward(c.Rounds) {
		if r.Decision == nil || r.Decision.Action != tool.Resume {
			continue
		}
		if r.Suspension.Origin != gate {
			if broughtArguments(&r) {
				return nil // A later decision on another question edited the arguments. That voids every earlier answer, even when the edit restores the arguments of that answer.
			}
			continue
		}
		if r.Decision.AppliesTo != "" && r.Decision.AppliesTo == b.Digest(c, &r.Suspension) {
			return r.Decision
		}
		return nil
	}
	return nil
}

// broughtArguments reports whether a round's decision replaced the arguments.
func broughtArguments(r *call.Round) bool {
	return r.Decision.Arguments != "" || r.Suspension.ResumeMode == tool.PassDecisionToTool && r.Decision.ResultInstead == nil
}

// Instead returns the round whose decision contains the result of the call in the tool's place, or nil. Such a decision stays in effect
// while other gates ask, until a later decision edits the arguments or the same gate gets another answer.
func Instead(c *call.Call) *call.Round {
	resumed := func(r *call.Round) bool { return r.Decision != nil && r.Decision.Action == tool.Resume }
	for i := len(c.Rounds) - 1; i >= 0; i-- {
		r := &c.Rounds[i]
		switch {
		case !resumed(r):
		case r.Decision.ResultInstead != nil && !slices.ContainsFunc(c.Rounds[i+1:], func(later call.Round) bool {
			return resumed(&later) && later.Suspension.Origin == r.Suspension.Origin
		}):
			return r
		case broughtArguments(r):
			return nil
		}
	}
	return nil
}
