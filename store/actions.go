package store

import (
	"fmt"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// An Action is work that the daemon executes after a commit. It stays in the store until it was executed, or removed as a dead action.
type Action struct {
	Namespace string `json:"-"`
	ID        string `json:"-"` // unique in the namespace; every attempt at the action uses it
	CallID    string `json:"call_id"`
	Run       string `json:"run_id,omitempty"`
	Thread    string `json:"thread_id,omitempty"`
	Batch     string `json:"batch_id,omitempty"`
	Caller    string `json:"caller"`
	tool.Action
	Round    int        `json:"round"`    // 1 for an action that a call requests, 2 for an action that such an action requests, and so on
	Attempts int        `json:"attempts"` // number of failed attempts
	Error    string     `json:"error,omitempty"`
	Created  call.Stamp `json:"created"`
	// Queue is the queue from which a consumer takes the action. An action with a queue is never due.
	Queue string `json:"queue,omitempty"`

	State ActionState `json:"-"`
	// Due is the time from which a pending action may be tried. Zero means that the action waits for the end of its batch or run, or for a
	// consumer of its queue.
	Due      call.Stamp `json:"-"`
	Position int64      `json:"-"` // position in the journal, set by the store
	// Broken means that the stored row is damaged: only its id, its position and its state are known.
	Broken bool `json:"-"`
}

// ActionState says whether an action will be tried again.
type ActionState string

// The states of an action.
const (
	ActionPending ActionState = "PENDING"
	ActionDead    ActionState = "DEAD" // The action stays stored until an operator retries it or retention removes it.
)

// End returns the id of the batch or run whose end makes the action due, or the name of the queue in which the action waits. It returns ""
// when the action waits for none of these.
func (a *Action) End() string {
	switch a.Phase {
	case tool.BatchEnd:
		return a.Batch
	case tool.RunEnd:
		return a.Run
	}
	return a.Queue
}

// Validate returns an error for an action without a namespace or an id, or with an unknown state.
func (a *Action) Validate() error {
	if a.Namespace == "" || a.ID == "" || a.State != ActionPending && a.State != ActionDead {
		return fmt.Errorf("action %q in namespace %q is %q", a.ID, a.Namespace, a.State)
	}
	return nil
}

// An ActionQuery selects actions in the order in which they were stored. Empty fields match all.
type ActionQuery struct {
	Namespace, ID string
	State         ActionState
	Due           bool   // Select only actions that are due by the store's clock. State must be ActionPending.
	End           string // Select only pending actions that wait for this batch, run or queue. Phase must be set, too.
	Phase         tool.Phase
	After         int64 // position of the last action of the previous page
	Limit         int   // 0 means 50
}

// An Amendment is a durable transaction that changes no call.
type Amendment struct {
	Namespace string
	// Documents are applied like those of a [Change].
	Documents []DocumentChange
	Limits    DocumentLimits
	// Done is the id of an action to remove. When that action does not exist, the amendment fails with ErrNotFound.
	Done string
	// Actions are the actions to store. They may include one that replaces Done.
	Actions []Action
	// Ended names a batch or run. Its actions that wait for the phase EndPhase become due now.
	Ended    string
	EndPhase tool.Phase
}

// Validate returns an error for an amendment that would be wrong in every state of the journal.
func (a *Amendment) Validate() error {
	if a.Namespace == "" {
		return fmt.Errorf("amendment without a namespace")
	}
	return validateActions(a.Namespace, a.Actions)
}

func validateActions(namespace string, actions []Action) error {
	for i := range actions {
		if err := actions[i].Validate(); err != nil {
			return err
		}
		if actions[i].Namespace != namespace {
			return fmt.Errorf("action %s of namespace %q in %q", actions[i].ID, actions[i].Namespace, namespace)
		}
	}
	return nil
}

// ResolveDocuments computes the effect of the commands of an amendment.
func (a *Amendment) ResolveDocuments(r DocumentReader) (map[DocumentKey]DocumentState, []call.DocumentNotice, error) {
	return ResolveDocuments(r, a.Documents, a.Limits, "", "")
}
