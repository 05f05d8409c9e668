package wire

import (
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// PermissionGate is the name of the permission gate: kept answers to its questions serve it alone.
const PermissionGate = "permission"

// Remembered shows an engine's kept answers to the permission gate.
func Remembered(p *lifecycle.Policies) permission.Remembered { return remembered{p} }

type remembered struct{ policies *lifecycle.Policies }

func (r remembered) Remembered(q permission.Query) []permission.RememberedRule {
	found := r.policies.InForce(&lifecycle.RuleQuery{
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

// Modes says who may choose which permission mode, by the rules that a gate has in force.
func Modes(g *permission.Gate) lifecycle.Modes { return modes{g} }

type modes struct{ gate *permission.Gate }

func (m modes) MayChoose(mode string, p tool.Principal) (may, exists bool) {
	return m.gate.Rules().MayChoose(mode, p)
}
