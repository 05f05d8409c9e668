package tool

// Effects describe what a call would do. The zero value of each field means its default; see [Effects.Normal].
type Effects struct {
	Mutability Mutability `json:"mutability,omitempty"`
	Safety     Safety     `json:"safety,omitempty"`
	Tier       Tier       `json:"tier,omitempty"`
	// ConcurrencySafe calls of one thread may run at the same time.
	ConcurrencySafe bool `json:"concurrency_safe,omitempty"`
	// OpenWorld calls access things that the operator does not own.
	OpenWorld bool `json:"open_world,omitempty"`
	// Resources are everything that the call uses. Calls of one thread whose resources do not overlap may run at the same time. A call
	// without resources is exclusive: it runs alone, unless it is concurrency-safe. In [Descriptor.Mildest], the list says which resources
	// an assessment may name: an entry permits each resource that its id contains, shared ones only if the entry is shared.
	Resources []Resource `json:"resources,omitempty"`
}

// IsZero reports whether no field is set.
func (e *Effects) IsZero() bool {
	return e.Mutability == "" && e.Safety == "" && e.Tier == "" && !e.ConcurrencySafe && !e.OpenWorld && len(e.Resources) == 0
}

// Mutability says whether a call changes something. It determines how the journal stores the call, whether plan mode permits it, and
// whether it runs again after a crash.
type Mutability string

// The mutabilities. The empty one means Mutating.
const (
	ReadOnly Mutability = "READ_ONLY"
	Mutating Mutability = "MUTATING"
)

// Safety is the most severe kind of effect of a call. When it is empty, the mutability determines it.
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

// The tiers. The empty one means Confirm.
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

// MilderThan reports whether e is milder than bound in at least one field. To name resources is milder than to be exclusive, so bound must
// permit each resource of e.
func (e Effects) MilderThan(bound Effects) bool {
	e, bound = e.Normal(), bound.Normal()
	return e.Mutability == ReadOnly && bound.Mutability != ReadOnly ||
		safetyRank(e.Safety) < safetyRank(bound.Safety) ||
		tierRank(e.Tier) < tierRank(bound.Tier) ||
		e.ConcurrencySafe && !bound.ConcurrencySafe ||
		!e.OpenWorld && bound.OpenWorld ||
		beyond(e.Resources, bound.Resources)
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

// Kind says roughly what a call does, so that frontends can choose an icon.
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
	Preview   []Content  `json:"preview,omitempty"` // content such as a diff or a command
	// Notes tell an approver what to consider, such as "overwrites a file that changed since it was read".
	Notes []string `json:"notes,omitempty"`
	// Basis identifies the state from which the description was made, for example by the hash of a file. After the approval the tool gets
	// this value as [ResumeInput.Basis]. The tool can then refuse the change when the state is no longer the same.
	Basis    string `json:"basis,omitempty"`
	Degraded bool   `json:"degraded,omitempty"` // set by the engine when Describe failed
	// Command contains the parts of a shell command, in the order of its text. Preview contains the text itself.
	Command []CommandPart `json:"command,omitempty"`
}

// A CommandPart is one action of a shell command.
type CommandPart struct {
	Text    string `json:"text"`
	Safety  Safety `json:"safety,omitempty"` // the worst known effect
	Reason  string `json:"reason,omitempty"`
	Unknown bool   `json:"unknown,omitempty"` // what the part runs is known only at run time
}

// A Location is a file that a call affects. Line counts from 1; 0 means the whole file.
type Location struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
}
