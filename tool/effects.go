package tool

// Effects say what a call would do to the world. Each field's zero value is the default that the docs name.
type Effects struct {
	Mutability Mutability `json:"mutability,omitempty"`
	Safety     Safety     `json:"safety,omitempty"`
	Tier       Tier       `json:"tier,omitempty"`
	// ConcurrencySafe calls of one thread may run beside each other.
	ConcurrencySafe bool `json:"concurrency_safe,omitempty"`
	// OpenWorld calls reach things that the operator does not own.
	OpenWorld bool `json:"open_world,omitempty"`
}

// Mutability decides the journal's class, what plan mode allows and what runs again after a crash.
type Mutability string

// The empty mutability is Mutating.
const (
	ReadOnly Mutability = "READ_ONLY"
	Mutating Mutability = "MUTATING"
)

// Safety is the worst kind of thing that a call may do. Empty follows the mutability.
type Safety string

// In the order of severity; Network has no place in that order.
const (
	SafetyReadOnly    Safety = "READ_ONLY"
	SafetyMutating    Safety = "MUTATING"
	SafetyNetwork     Safety = "NETWORK"
	SafetyDestructive Safety = "DESTRUCTIVE"
)

// Tier is how much of a person's attention a call needs.
type Tier string

// The empty tier is Confirm.
const (
	Observe  Tier = "OBSERVE"
	Confirm  Tier = "CONFIRM"
	Escalate Tier = "ESCALATE" // somebody other than the caller
)

// Normal returns e with its defaults written out.
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

// MilderThan reports whether e claims less than bound in any dimension.
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

// Kind is the sort of thing that a call does, for people and icons.
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
	// Notes say what an approver should know, such as "overwrites a file that changed since it was read".
	Notes []string `json:"notes,omitempty"`
	// Basis is what the description was made from, such as the hash of a file. It comes back in [ResumeInput.Basis], so
	// that a tool can refuse what an approver saw when the world has moved since.
	Basis    string `json:"basis,omitempty"`
	Degraded bool   `json:"degraded,omitempty"` // set by the engine when Describe could not answer
}

// A Location is a place that a call touches. Line counts from 1; 0 means the whole file.
type Location struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
}
