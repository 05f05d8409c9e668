package call

import (
	"time"

	"github.com/toold-dev/toold/tool"
)

// EventType says which field of an [Event] is set.
type EventType string

// The events of a call's log. A call that is allowed and finishes has only EventAccepted, EventAttemptStarted and EventFinished.
const (
	EventAccepted         EventType = "accepted"
	EventQueued           EventType = "queued"
	EventAttemptStarted   EventType = "attempt_started"
	EventStatusChanged    EventType = "status_changed"
	EventGateDecided      EventType = "gate_decided"
	EventProgress         EventType = "progress"
	EventActivitySnapshot EventType = "activity_snapshot"
	EventActivityDelta    EventType = "activity_delta"
	EventOutput           EventType = "output"
	EventSuspended        EventType = "suspended"
	EventVoteRecorded     EventType = "vote_recorded"
	EventClaimed          EventType = "claimed"
	EventResumed          EventType = "resumed"
	EventCancelRequested  EventType = "cancel_requested"
	EventDocumentChanged  EventType = "document_changed"
	EventStateConflict    EventType = "state_conflict"
	EventFinished         EventType = "finished"
)

// An Event is an entry of a call's log.
type Event struct {
	Sequence int64     `json:"n"` // from 1, without gaps
	Time     time.Time `json:"t"`
	Type     EventType `json:"k"`

	Accepted   *Accepted       `json:"accepted,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Status     Status          `json:"status,omitempty"`
	Verdict    *GateVerdict    `json:"verdict,omitempty"`
	Progress   *tool.Progress  `json:"progress,omitempty"`
	Activity   *Activity       `json:"activity,omitempty"`
	Output     *Output         `json:"output,omitempty"`
	Suspension *Suspension     `json:"suspension,omitempty"` // for a resumed event, only its id and round are set
	Decision   *tool.Decision  `json:"decision,omitempty"`
	Vote       *VoteRecorded   `json:"vote,omitempty"`
	Claim      *ClaimChanged   `json:"claim,omitempty"`
	Cancel     *CancelRequest  `json:"cancel,omitempty"`
	Document   *DocumentNotice `json:"document,omitempty"`
	Queued     *Queued         `json:"queued,omitempty"`
	Outcome    *Outcome        `json:"outcome,omitempty"`
}

// Queued says what a call waits for when it begins to wait.
type Queued struct {
	Reason string `json:"reason"`          // THREAD, DAEMON, NAMESPACE, PRINCIPAL, TOOL, HOLD
	Ahead  int    `json:"ahead,omitempty"` // calls that began to wait earlier for the same limit
	Limit  int    `json:"limit,omitempty"` // how many calls may run at once; 0 for THREAD and HOLD
}

// Accepted describes the call. Watchers that follow many calls need not read the record of each call.
type Accepted struct {
	Tool        string `json:"tool"`
	ToolDigest  string `json:"tool_digest,omitempty"` // empty when the tool does not exist
	Class       Class  `json:"class"`
	Run         string `json:"run_id,omitempty"`
	Thread      string `json:"thread_id,omitempty"`
	ModelCallID string `json:"model_call_id,omitempty"`

	BatchID       string `json:"batch_id,omitempty"`
	BatchPosition int    `json:"batch_position,omitempty"`

	// The description and the effects of the call. Kind is empty when the call ended before it was described. Data that the tool looked up is
	// left out, because not every watcher may see it.
	Kind       tool.Kind    `json:"kind,omitempty"`
	Title      string       `json:"title,omitempty"`
	Degraded   bool         `json:"degraded,omitempty"`
	Assessment tool.Effects `json:"assessment,omitzero"`
}

// Describe sets the description and the effects of the call. It leaves out the resources, because not every watcher may see where links
// of the workspace lead.
func (a *Accepted) Describe(d *tool.Description, e tool.Effects) {
	a.Kind, a.Title, a.Degraded, a.Assessment = d.Kind, d.Title, d.Degraded, e
	a.Assessment.Resources = nil
}

// An Activity is a snapshot (Content), or a JSON Patch of RFC 6902 that changes the last snapshot (Patch).
type Activity struct {
	ID      string `json:"id"`
	Type    string `json:"type,omitempty"`
	Content string `json:"content,omitempty"`
	Patch   string `json:"patch,omitempty"`
}

// An Output names bytes of a stream in the spool. The journal does not store Bytes. For stored events, a watcher reads them from the spool.
type Output struct {
	Stream string `json:"stream"`
	Offset int64  `json:"offset"`
	Length int    `json:"length"`
	Bytes  []byte `json:"-"`
}

// A VoteRecorded is one of several required votes. The suspension stays open.
type VoteRecorded struct {
	SuspensionID string    `json:"suspension_id"`
	Vote         tool.Vote `json:"vote"`
	Votes        int       `json:"votes"`  // votes for the same answer, including this one
	Needed       int       `json:"needed"` // required votes
}

// A ClaimChanged reports that a person looks at the question, or no longer does.
type ClaimChanged struct {
	SuspensionID string `json:"suspension_id"`
	Claim        *Claim `json:"claim,omitempty"` // nil after a release
}

// A DocumentNotice reports that a document changed, or why a command was dropped.
type DocumentNotice struct {
	Scope    tool.Scope `json:"scope"`
	ScopeID  string     `json:"scope_id"` // empty for NAMESPACE
	Key      string     `json:"key"`
	Revision int64      `json:"revision"` // the revision after the change, or 0 when there was nothing to change; for a conflict, the current revision
	Expected *int64     `json:"expected,omitempty"`
	Conflict Conflict   `json:"conflict,omitempty"` // Empty means that the command was applied.
}

// A Conflict is why a document command was dropped.
type Conflict string

// The reasons for which a command is dropped.
const (
	ConflictRevision Conflict = "REVISION" // the document does not have the expected revision
	ConflictClaimed  Conflict = "CLAIMED"  // another call of the same parallel group set, merged or deleted it first
	ConflictType     Conflict = "TYPE"     // The command adds to a value that is no number, or appends to a value that is no array.
	ConflictRange    Conflict = "RANGE"    // The exact sum is too long.
	ConflictSize     Conflict = "SIZE"     // the document would be too large
	ConflictRoom     Conflict = "ROOM"     // The scope has too many documents, or too many bytes.
	ConflictScope    Conflict = "SCOPE"    // the author of the command may not write in this scope
	ConflictBroken   Conflict = "BROKEN"   // The stored document is damaged. A set command replaces it.
	ConflictJournal  Conflict = "JOURNAL"  // the journal refused the documents of this step
)

// An Outcome says how a call ended.
type Outcome struct {
	Status   Status       `json:"status"`
	Executed Executed     `json:"executed"`
	Result   *tool.Result `json:"result"`
}

// AcceptedAs returns the content of the first event of a call.
func AcceptedAs(c *Call) Accepted {
	a := Accepted{
		Tool: c.Tool, ToolDigest: c.ToolDigest, Class: c.Class, Run: c.Run.ID, Thread: c.Run.Thread, ModelCallID: c.ModelCallID,
		BatchID: c.BatchID, BatchPosition: c.BatchPosition,
	}
	a.Describe(&c.Description, c.Assessment)
	return a
}
