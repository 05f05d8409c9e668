package permission

import (
	"slices"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// The modes that every daemon has. Others are rule sets that the operator made.
const (
	ModeDefault     = "default"      // the rules alone
	ModePlan        = modePlan       // nothing but what is read-only
	ModeAcceptEdits = "accept_edits" // edits of files are not asked about
	ModeBypass      = "bypass"       // nothing that one person could agree to is asked about

	modePlan = "plan"
)

// Modes says which permission modes were chosen. It is asked from many goroutines, about calls that have a run or a
// thread, and answers from memory; "" is a run or thread for which none was chosen.
type Modes interface {
	Modes(namespace, run, thread string) (ofRun, ofThread string)
}

// choosers are the roles that may choose the modes that every daemon has. What takes away is for everybody; what answers
// in the place of an approver is for those.
var choosers = map[string][]string{
	ModeDefault:     {"caller", "delegate", "approver", "operator"},
	ModePlan:        {"caller", "delegate", "approver", "operator"},
	ModeAcceptEdits: {"approver", "operator"},
	ModeBypass:      {"operator"},
}

// MayChoose reports whether somebody may choose a mode, and whether there is such a mode. Leaving a mode needs what
// choosing it needs, so that nobody removes what only another person could set: ask for both.
func (r *Rules) MayChoose(mode string, p tool.Principal) (may, exists bool) {
	roles, exists := choosers[mode]
	if own := r.modes[mode]; own != nil {
		roles, exists = own.chosenBy, true
	}
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(p.Roles, role) }), exists
}

// chosen are the modes that hold for a call.
type chosen struct {
	plan    bool
	gives   string // accept_edits or bypass; "" when neither counts
	unknown string // a mode that is chosen and not there
}

// layersOf returns the layers that hold for a call and the modes beside them.
func (g *Gate) layersOf(r *Rules, in *hook.Input) (ls layers, m chosen) {
	var ofRun, ofThread string
	if g.modes != nil && (in.Run.ID != "" || in.Run.Thread != "") {
		ofRun, ofThread = g.modes.Modes(in.Namespace, in.Run.ID, in.Run.Thread)
	}
	for i, mode := range [...]string{ofRun, ofThread} {
		own := r.modes[mode]
		switch {
		case own != nil:
			ls.add(own)
		case mode == ModePlan:
			m.plan = true
		case mode != "" && choosers[mode] == nil:
			m.unknown = mode
		case i == 0 || ofRun == "": // the run's counts in place of the thread's
			if mode == ModeAcceptEdits || mode == ModeBypass {
				m.gives = mode
			}
		}
	}
	if g.above != nil {
		for _, mode := range g.above(in) {
			switch own := r.modes[mode]; {
			case own != nil:
				ls.addAbove(own)
			case mode == ModePlan:
				m.plan = true
			case mode != "" && choosers[mode] == nil:
				m.unknown = mode
			}
		}
	}
	ls.add(r.namespaces[in.Namespace])
	ls.add(r.operator)
	return ls, m
}

// under applies the modes to a decision. No mode softens a refusal. A mode that answers for a person answers only where one person
// is enough, as a remembered answer does.
func (m *chosen) under(d decision, in *hook.Input) decision {
	switch {
	case d.action.refuses():
		return d
	case m.unknown != "":
		return decision{action: deny, mode: m.unknown, tier: d.tier}
	case m.plan && in.Assessment.Normal().Mutability != tool.ReadOnly:
		return decision{action: deny, mode: ModePlan, tier: d.tier}
	case d.action != ask || !d.alone():
		return d
	case m.gives == ModeBypass, m.gives == ModeAcceptEdits && isEdit(in):
		d.action, d.mode = allow, m.gives
	}
	return d
}

// isEdit reports whether a call edits files and does nothing worse: its description says which.
func isEdit(in *hook.Input) bool {
	e := in.Assessment.Normal()
	return in.Description.Kind == tool.KindEdit && len(in.Description.Locations) > 0 && !in.Description.Degraded &&
		(e.Safety == tool.SafetyMutating || e.Safety == tool.SafetyReadOnly) && !e.OpenWorld
}
