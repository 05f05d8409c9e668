package gating

import "github.com/toold-dev/toold/tool"

// KindOf returns the kind of a call whose tool does not describe it, from the effects of the tool.
func KindOf(e tool.Effects) tool.Kind {
	switch e.Normal().Safety {
	case tool.SafetyReadOnly:
		return tool.KindRead
	case tool.SafetyNetwork:
		return tool.KindFetch
	case tool.SafetyMutating:
		return tool.KindEdit
	default:
		return tool.KindOther
	}
}
