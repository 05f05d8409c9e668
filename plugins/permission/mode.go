package permission

import (
	"maps"
	"slices"

	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// The built-in modes. All other modes are rule sets of the operator.
const (
	ModeDefault     = "default"      // only the rules apply
	ModePlan        = modePlan       // only read-only calls are allowed
	ModeAcceptEdits = "accept_edits" // edits of files need no approval
	ModeBypass      = "bypass"       // a call needs no approval if the approval of one person would be enough

	modePlan = "plan"
)

// Modes returns the permission modes that were chosen for a run and for a thread; "" means that none was chosen. It must not do I/O. It is
// called concurrently, only for calls with a run or a thread.
type Modes interface {
	Modes(namespace, run, thread string) (ofRun, ofThread string)
}

// choosers maps the built-in modes to the roles that may choose them. Every role may choose a mode that only restricts. A mode that
// replaces approvals may be chosen only by a role that may approve.
var choosers = map[string][]string{
	ModeDefault:     {"caller", "delegate", "approver", "operator"},
	ModePlan:        {"caller", "delegate", "approver", "operator"},
	ModeAcceptEdits: {"approver", "operator"},
	ModeBypass:      {"operator"},
}

// MayChoose reports whether p may choose a mode, and whether the mode exists. To replace a mode by another, the caller must check both
// modes. Otherwise a principal could remove a mode that it may not choose.
func (r *Rules) MayChoose(mode string, p tool.Principal) (may, exists bool) {
	roles, exists := choosers[mode]
	if own := r.modes[mode]; own != nil {
		roles, exists = own.chosenBy, true
	}
	return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(p.Roles, role) }), exists
}

// AllModes returns the names of all modes: the built-in ones, then those of the operator, sorted.
func (r *Rules) AllModes() []string {
	modes := []string{ModeDefault, ModePlan, ModeAcceptEdits, ModeBypass}
	for _, own := range slices.Sorted(maps.Keys(r.modes)) {
		if choosers[own] == nil {
			modes = append(modes, own)
		}
	}
	return modes
}

// chosen contains the modes that apply to a call.
type chosen struct {
	plan    bool
	grants  string // accept_edits or bypass; "" when neither applies
	unknown string // a chosen mode that does not exist
}

// layersOf returns the layers and the built-in modes that apply to a call.
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
		case i == 0 || ofRun == "": // the run's mode overrides the thread's
			if mode == ModeAcceptEdits || mode == ModeBypass {
				m.grants = mode
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

// under applies the modes to a decision. No mode weakens a refusal. Like a remembered answer, a mode replaces an approval only when the
// approval of one person would be enough.
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
	case m.grants == ModeBypass, m.grants == ModeAcceptEdits && isEdit(in):
		d.action, d.mode = allow, m.grants
	}
	return d
}

// isEdit reports whether a call only edits files and its description lists these files.
func isEdit(in *hook.Input) bool {
	e := in.Assessment.Normal()
	return in.Description.Kind == tool.KindEdit && len(in.Description.Locations) > 0 && !in.Description.Degraded &&
		(e.Safety == tool.SafetyMutating || e.Safety == tool.SafetyReadOnly) && !e.OpenWorld
}
