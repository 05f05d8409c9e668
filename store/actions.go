package store

import (
	"fmt"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// An Action is stored until it was carried out.
type Action struct {
	Namespace string `json:"-"`
	ID        string `json:"-"` // unique in the namespace; the same however often it is tried
	CallID    string `json:"call_id"`
	Run       string `json:"run_id,omitempty"`
	Thread    string `json:"thread_id,omitempty"`
	Batch     string `json:"batch_id,omitempty"`
	Caller    string `json:"caller"`
	tool.Action
	Round    int       `json:"round"`    // 1 for what a call asked for, one more for what that asked for, …
	Attempts int       `json:"attempts"` // that failed
	Error    string    `json:"error,omitempty"`
	Created  time.Time `json:"created"`
	// Queue is where somebody takes the action from when he can: one that has a queue is never due.
	Queue string `json:"queue,omitempty"`

	State ActionState `json:"-"`
	// Due is when a pending action may be tried; zero waits for the end of its batch or run, or in its queue.
	Due      time.Time `json:"-"`
	Position int64     `json:"-"` // set by the store
	// Broken means that the stored row is damaged: only its id, its place and its state are known.
	Broken bool `json:"-"`
}

// ActionState says whether an action is tried again.
type ActionState string

// The states of an action.
const (
	ActionPending ActionState = "PENDING"
	ActionDead    ActionState = "DEAD" // until somebody wants it tried again, or retention
)

// End returns the batch or run at whose end the action is carried out, or the queue in which it waits; "" when it waits for none.
func (a *Action) End() string {
	switch a.Phase {
	case tool.BatchEnd:
		return a.Batch
	case tool.RunEnd:
		return a.Run
	}
	return a.Queue
}

// Validate refuses an action that could not be found again.
func (a *Action) Validate() error {
	if a.Namespace == "" || a.ID == "" || a.State != ActionPending && a.State != ActionDead {
		return fmt.Errorf("action %q in namespace %q is %q", a.ID, a.Namespace, a.State)
	}
	return nil
}

// An ActionQuery selects actions in the order in which they were stored. Empty fields select all.
type ActionQuery struct {
	Namespace, ID string
	State         ActionState
	Due           bool   // those that the store's clock has come to; State is ActionPending
	End           string // the batch or run that they wait for, or their queue, with Phase; those that wait alone
	Phase         tool.Phase
	After         int64 // the position of the last one of the page before
	Limit         int   // 0 means 50
}

// An Amendment is what happens in one transaction, durably, beside any call.
type Amendment struct {
	Namespace string
	// Documents are applied as those of a [Change] are.
	Documents []DocumentChange
	Limits    DocumentLimits
	// Done is the id of an action that goes; when there is none, nothing happens and the answer is ErrNotFound.
	Done string
	// Actions are new ones, or one that takes the place of Done.
	Actions []Action
	// Ended names a batch or run whose actions of this phase are due from now on.
	Ended    string
	EndPhase tool.Phase
}

// Validate refuses an amendment that no state of the journal could take.
func (a *Amendment) Validate() error {
	if a.Namespace == "" {
		return fmt.Errorf("amendment of no namespace")
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

// ResolveDocuments works out what the commands of an amendment do.
func (a *Amendment) ResolveDocuments(r DocumentReader) (map[DocumentKey]DocumentState, []call.DocumentNotice, error) {
	return ResolveDocuments(r, a.Documents, a.Limits, "", "")
}
