package tool

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// A Call is what a tool gets: one attempt of one call. The tool may read all of it and change none.
type Call struct {
	Namespace   string
	ID          string
	ModelCallID string
	Tool        string
	Attempt     int   // from 1
	Epoch       int64 // of the daemon; one with a higher epoch has taken its store over
	ReadOnly    bool  // it was assessed to change nothing
	Run         Run
	Caller      Principal
	OnBehalfOf  string
	Arguments   Arguments
	// Documents is the snapshot that this attempt sees; nil when there is none.
	Documents Documents
	Deadline  time.Time
	// Resume is set when a decision started this attempt.
	Resume *ResumeInput
	// Checkpoint is what an earlier attempt saved last.
	Checkpoint []byte
	// Operation is what the call is about when [Poller] or [Abandoner] get it, when the work continues elsewhere.
	Operation *Operation
	// Reporter takes the reports of the running tool; nil drops them, which is handy in tests.
	Reporter Reporter
}

// A Run is the orchestrator's turn that a call belongs to.
type Run struct {
	ID           string            `json:"run_id,omitempty"`
	Thread       string            `json:"thread_id,omitempty"`
	ParentRun    string            `json:"parent_run_id,omitempty"`
	ParentThread string            `json:"parent_thread_id,omitempty"`
	ParentCall   string            `json:"parent_call_id,omitempty"`
	Agent        Agent             `json:"agent,omitzero"`
	Origin       string            `json:"origin,omitempty"`
	Unattended   bool              `json:"unattended,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
}

// An Agent is the program that the orchestrator runs.
type Agent struct {
	ID   string `json:"agent_id,omitempty"`
	Spec string `json:"spec,omitempty"` // the orchestrator's own JSON about it
	// Allow and Exclude are globs: see [Agent.Offers]. A call of a tool that is not offered does not find it.
	Allow   []string `json:"allow,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// A Principal is the client, as authentication established it.
type Principal struct {
	Namespace string   `json:"namespace,omitempty"`
	Subject   string   `json:"subject,omitempty"`
	Roles     []string `json:"roles,omitempty"`
	Method    string   `json:"method,omitempty"` // how it was established: peer, token, …
}

// HasRole reports whether a principal has a role.
func (p Principal) HasRole(role string) bool { return slices.Contains(p.Roles, role) }

// A ResumeInput is what a suspended call gets when it runs again.
type ResumeInput struct {
	SuspensionID string
	Reason       string // the ticket's action
	Round        int
	Result       string // the decision's JSON text; may be empty
	Decision     Decision
	Basis        string // of the description that the ticket showed
}

// A Reporter passes on what happens while a tool runs. It never waits for a watcher; an error means that the call is
// over and the tool should return.
type Reporter interface {
	Progress(Progress) error
	Activity(id, activityType, content string) error
	ActivityDelta(id, patch string) error
	Output(stream string, b []byte) error
	SaveCheckpoint(b []byte) error
	SaveArtifact(name, mimeType string, b []byte) (Artifact, error)
}

// A Progress says how far a tool is.
type Progress struct {
	Status   ProgressStatus `json:"status"`
	Fraction float64        `json:"fraction,omitempty"` // 0 to 1; 0 with a Total of 0 means unknown
	Message  string         `json:"message,omitempty"`
	Loaded   int64          `json:"loaded,omitempty"`
	Total    int64          `json:"total,omitempty"`
}

// ProgressStatus is the state that a progress event shows.
type ProgressStatus string

// The progress states.
const (
	ProgressPending   ProgressStatus = "pending"
	ProgressRunning   ProgressStatus = "running"
	ProgressDone      ProgressStatus = "done"
	ProgressFailed    ProgressStatus = "failed"
	ProgressCancelled ProgressStatus = "cancelled"
)

// ErrNoReporter means that a call has nobody to keep what it wants kept.
var ErrNoReporter = errors.New("call has no reporter")

// Progress shows watchers how far the tool is. Fraction runs from 0 to 1.
func (c *Call) Progress(status ProgressStatus, fraction float64, message string) error {
	return c.ReportProgress(Progress{Status: status, Fraction: fraction, Message: message})
}

// ReportProgress is Progress with amounts.
func (c *Call) ReportProgress(p Progress) error {
	if c.Reporter == nil {
		return nil
	}
	return c.Reporter.Progress(p)
}

// Activity replaces what an activity shows; content has a JSON form.
func (c *Call) Activity(id, activityType string, content any) error {
	if c.Reporter == nil {
		return nil
	}
	b, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return c.Reporter.Activity(id, activityType, string(b))
}

// ActivityDelta changes an activity by a JSON Patch (RFC 6902): a list of operations, or one. Without a snapshot the
// base is {}.
func (c *Call) ActivityDelta(id string, patch any) error {
	if c.Reporter == nil {
		return nil
	}
	b, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	if len(b) > 0 && b[0] == '{' {
		b = append(append([]byte{'['}, b...), ']')
	}
	return c.Reporter.ActivityDelta(id, string(b))
}

// Output appends to one of the call's streams, such as stdout. It blocks on the disk at most, never on a watcher.
func (c *Call) Output(stream string, b []byte) error {
	if c.Reporter == nil {
		return nil
	}
	return c.Reporter.Output(stream, b)
}

// CheckpointSize is the reason of a checkpoint that is refused because it has more than 16 MiB.
const CheckpointSize = "CHECKPOINT_SIZE"

// SaveCheckpoint keeps b for the next attempt. What a tool did before it, it must not do again. One of more than 16 MiB is refused, and
// the one before it stays.
func (c *Call) SaveCheckpoint(b []byte) error {
	if c.Reporter == nil {
		return ErrNoReporter
	}
	return c.Reporter.SaveCheckpoint(b)
}

// SaveArtifact stores bytes that are too big for a result; a [Content] names it by Artifact.
func (c *Call) SaveArtifact(name, mimeType string, b []byte) (Artifact, error) {
	if c.Reporter == nil {
		return Artifact{}, ErrNoReporter
	}
	return c.Reporter.SaveArtifact(name, mimeType, b)
}
