package hook

import (
	"context"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Handler executes the actions that name its entry. It is called at least once for each action, and again after a crash or an error. The
// ID of the action stays the same, so that the Handler can detect a repetition. Its result commits together with the completion of the
// action. A panic counts as an error. The Match of the entry is ignored.
type Handler interface {
	Handle(ctx context.Context, in *ActionInput) (ActionResult, error)
}

// HandlerDeadline limits one attempt at an action when the entry sets no Deadline.
const HandlerDeadline = 30 * time.Second

// An ActionInput is the input of a handler, which must not modify it.
type ActionInput struct {
	ID        string // ID of the action
	Namespace string
	CallID    string // the call that requested the action; it may no longer exist
	Run       string
	Thread    string
	Batch     string
	Caller    string // subject of the caller
	Phase     tool.Phase
	Payload   string // JSON text
	Round     int    // 1 for an action that a call requested; one more for each action that a Handler requested
	Attempt   int    // counted from 1
	// Documents is a snapshot taken at the start of the attempt. Commands may use the revisions in it.
	Documents tool.Documents
}

// An ActionResult is the result of an action. Commands that fail their revision check are dropped and logged. The Round of the new Actions
// is one higher than that of this action. Actions beyond round 16 become dead letters.
type ActionResult struct {
	Documents []tool.Command
	Actions   []tool.Action
}
