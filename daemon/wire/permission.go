package wire

import (
	"github.com/toold-dev/toold/lifecycle/policy"
	"github.com/toold-dev/toold/plugins/permission"
	"github.com/toold-dev/toold/tool"
)

// Modes returns a check of which principal may choose which permission mode, by the rules in force.
func Modes(g *permission.Gate) policy.Modes { return modes{g} }

type modes struct{ gate *permission.Gate }

func (m modes) MayChoose(mode string, p tool.Principal) (may, exists bool) {
	return m.gate.Rules().MayChoose(mode, p)
}

func (m modes) All() []string { return m.gate.Rules().AllModes() }
