package wire

import (
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// PermissionGate is the name of the permission gate. Only this gate uses the remembered answers to its questions.
const PermissionGate = "permission"

// Remembered gives the permission gate access to the remembered answers of an engine.
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

// Modes returns a check of which principal may choose which permission mode, by the rules in force.
func Modes(g *permission.Gate) policy.Modes { return modes{g} }

type modes struct{ gate *permission.Gate }

func (m modes) MayChoose(mode string, p tool.Principal) (may, exists bool) {
	return m.gate.Rules().MayChoose(mode, p)
}
