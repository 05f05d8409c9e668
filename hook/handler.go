package hook

import (
	"context"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Handler carries out the actions that bear the name of its entry. It is asked at least once for each, again after a crash and
// after an error, always with the same ID, by which it knows a repetition. What it returns commits together with the fact that
// the action is done. A panic counts as an error; the Match of its entry does not count.
type Handler interface {
	Handle(ctx context.Context, in *ActionInput) (ActionResult, error)
}

// HandlerDeadline bounds one attempt at an action of an entry that names no Deadline.
const HandlerDeadline = 30 * time.Second

// An ActionInput is what a handler gets. It reads it only.
type ActionInput struct {
	ID        string // of the action
	Namespace string
	CallID    string // that asked for it; it may be gone
	Run       string
	Thread    string
	Batch     string
	Caller    string // subject
	Phase     tool.Phase
	Payload   string // JSON text
	Round     int    // 1 for what a call asked for
	Attempt   int    // from 1
	// Documents is a snapshot of now. Commands may carry the revisions that it shows.
	Documents tool.Documents
}

// An ActionResult is what comes of an action. Commands that lose are dropped and logged. Actions have a round more than this
// one; those beyond the 16th become dead letters.
type ActionResult struct {
	Documents []tool.Command
	Actions   []tool.Action
}
