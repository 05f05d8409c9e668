package wire

import (
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// PermissionGate is the name of the permission gate: kept answers to its questions serve it alone.
const PermissionGate = "permission"

// Remembered shows an engine's kept answers to the permission gate.
func Remembered(p *policy.Policies) permission.Remembered { return remembered{p} }

type remembered struct{ policies *policy.Policies }

func (r remembered) Remembered(q permission.Query) []permission.RememberedRule {
	found := r.policies.Rules(&policy.Query{
		Gate: PermissionGate, Namespace: q.Namespace, Principal: q.Principal, OnBehalfOf: q.OnBehalfOf, Run: q.Run, Thread: q.Thread,
		Tool: q.Tool, ToolDigest: q.ToolDigest,
	})
	if len(found) == 0 {
		return nil
	}
	rules := make([]permission.RememberedRule, len(found))
	for i, rule := range found {
		rules[i] = permission.RememberedRule{ID: rule.ID, Option: rule.Option, By: rule.By}
	}
	return rules
}

// Modes checks which principal may choose which permission mode, by the rules in force.
func Modes(g *permission.Gate) policy.Modes { return modes{g} }

type modes struct{ gate *permission.Gate }

func (m modes) MayChoose(mode string, p tool.Principal) (may, exists bool) {
	return m.gate.Rules().MayChoose(mode, p)
}
