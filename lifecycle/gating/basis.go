package gating

import (
	"cmp"
	"slices"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// A Basis is what a question or an attempt of a call is about. A pipeline run freezes it when the arguments are final; its later steps
// read it and never compute it anew. [Basis.Digest] is how the journal keeps it: a tool, isolation or arguments that changed since give
// another digest.
type Basis struct {
	ToolDigest string
	Isolation  tool.Isolation // that the tool requires
	Network    string         // that the tool requires
	Arguments  tool.Arguments // effective
	// Unwritten is the durability class of the attempt: its tool may start before the journal has the intent.
	Unwritten bool
}

// NewBasis returns the basis of a call of a tool with these arguments.
func NewBasis(toolDigest string, d *tool.Descriptor, args tool.Arguments) Basis {
	return Basis{
		ToolDigest: toolDigest, Isolation: cmp.Or(d.RequiredIsolation, tool.IsolationNone), Network: cmp.Or(d.RequiredNetwork, "none"),
		Arguments: args,
	}
}

// With returns the basis with other arguments.
func (b Basis) With(args tool.Arguments) Basis {
	b.Arguments = args
	return b
}

// Digest returns the digest of the basis with the texts and the expiry of a question about it.
func (b Basis) Digest(c *call.Call, s *call.Suspension) string {
	a := call.Approval{
		Namespace: c.Namespace, CallID: c.ID, SuspensionID: s.ID, Caller: c.Caller.Subject, OnBehalfOf: c.OnBehalfOf,
		Tool: c.Tool, ToolDigest: b.ToolDigest, Arguments: b.Arguments, ResumeMode: s.ResumeMode,
		Isolation: string(b.Isolation), Network: b.Network,
		ExpiresAt: s.ExpiresAt, Message: s.Message, Parameters: s.Parameters, ResponseSchema: s.ResponseSchema,
	}
	return a.Digest()
}

// Shown reports whether the tool and its required isolation are those that the question showed. limit is how large arguments of the tool
// may be.
func (b Basis) Shown(c *call.Call, s *call.Suspension, limit int) bool {
	shown, err := call.Parse(s.Pending.Arguments).Arguments(limit)
	return err == nil && s.Digest == b.With(shown).Digest(c, s)
}

// Holds reports whether a decision on a question was given for this basis, whose arguments are those that the decision counts for.
// limit is as in [Basis.Shown].
func (b Basis) Holds(c *call.Call, s *call.Suspension, d *tool.Decision, limit int) bool {
	if d.AppliesTo == "" { // arguments that count as nobody's consent
		return b.Shown(c, s, limit)
	}
	return d.AppliesTo == b.Digest(c, s)
}

// Answer returns the newest decision on a question of a gate when it was given for exactly this basis; else nil.
func (b Basis) Answer(c *call.Call, gate string) *tool.Decision {
	for _, r := range slices.Backward(c.Rounds) {
		if r.Decision == nil || r.Decision.Action != tool.Resume {
			continue
		}
		if r.Suspension.Origin != gate {
			if broughtArguments(&r) {
				return nil // they voided every answer before, also one that was for what the arguments became later
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
	return r.Decision.Arguments != "" || r.Suspension.ResumeMode == tool.PassDecisionToTool
}
