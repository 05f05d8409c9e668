package tool

// Effects describe what a call would do. Each field's zero value is the default that the documentation names.
type Effects struct {
	Mutability Mutability `json:"mutability,omitempty"`
	Safety     Safety     `json:"safety,omitempty"`
	Tier       Tier       `json:"tier,omitempty"`
	// ConcurrencySafe calls of one thread may run at the same time.
	ConcurrencySafe bool `json:"concurrency_safe,omitempty"`
	// OpenWorld calls access things that the operator does not own.
	OpenWorld bool `json:"open_world,omitempty"`
}

// Mutability determines the journal's class, what plan mode permits, and what runs again after a crash.
type Mutability string

// The empty mutability is Mutating.
const (
	ReadOnly Mutability = "READ_ONLY"
	Mutating Mutability = "MUTATING"
)

// Safety is the most severe kind of effect of a call. Empty follows from the mutability.
type Safety string

// The values in order of severity.
const (
	SafetyReadOnly    Safety = "READ_ONLY"
	SafetyMutating    Safety = "MUTATING"
	SafetyNetwork     Safety = "NETWORK"
	SafetyDestructive Safety = "DESTRUCTIVE"
)

// Tier says which consent a call needs.
type Tier string

// The empty tier is Confirm.
const (
	Observe  Tier = "OBSERVE"
	Confirm  Tier = "CONFIRM"
	Escalate Tier = "ESCALATE" // needs consent of a person other than the caller
)

// Normal returns e with its defaults filled in.
func (e Effects) Normal() Effects {
	if e.Mutability == "" {
		e.Mutability = Mutating
	}
	if e.Safety == "" {
		e.Safety = Safety(e.Mutability)
	}
	if e.Tier == "" {
		e.Tier = Confirm
	}
	return e
}

// MilderThan reports whether e is milder than bound in at least one field.
func (e Effects) MilderThan(bound Effects) bool {
	e, bound = e.Normal(), bound.Normal()
	return e.Mutability == ReadOnly && bound.Mutability != ReadOnly ||
		safetyRank(e.Safety) < safetyRank(bound.Safety) ||
		tierRank(e.Tier) < tierRank(bound.Tier) ||
		e.ConcurrencySafe && !bound.ConcurrencySafe ||
		!e.OpenWorld && bound.OpenWorld
}

func safetyRank(s Safety) int {
	switch s {
	case SafetyReadOnly:
		return 0
	case SafetyMutating:
		return 1
	case SafetyNetwork:
		return 2
	default:
		return 3
	}
}

func tierRank(t Tier) int {
	switch t {
	case Observe:
		return 0
	case Confirm:
		return 1
	default:
		return 2
	}
}

// Kind is the kind of a call, for people and icons.
type Kind string

// The kinds that frontends know.
const (
	KindRead    Kind = "READ"
	KindEdit    Kind = "EDIT"
	KindDelete  Kind = "DELETE"
	KindMove    Kind = "MOVE"
	KindSearch  Kind = "SEARCH"
	KindExecute Kind = "EXECUTE"
	KindThink   Kind = "THINK"
	KindFetch   Kind = "FETCH"
	KindOther   Kind = "OTHER"
)

// A Description shows a person what one call would do.
type Description struct {
	Kind      Kind       `json:"kind,omitempty"`
	Title     string     `json:"title,omitempty"` // one line, such as "Edit src/main.go"
	Locations []Location `json:"locations,omitempty"`
	Preview   []Content  `json:"preview,omitempty"` // a diff, a command
	// Notes tell an approver what to consider, such as "overwrites a file that changed since it was read".
	Notes []string `json:"notes,omitempty"`
	// Basis identifies the state that the description was made from, such as the hash of a file. [ResumeInput.Basis] returns it, so that a
	// tool can refuse a change when the state has changed since the approval.
	Basis    string `json:"basis,omitempty"`
	Degraded bool   `json:"degraded,omitempty"` // set by the engine when Describe failed
}

// A Location is a place that a call affects. Line counts from 1; 0 means the whole file.
type Location struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
}
