package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Call is one attempt of a call, as the tool receives it. The tool must not change it.
type Call struct {
	Namespace   string
	ID          string
	ModelCallID string
	Tool        string // id that the source gave the tool: see [Descriptor.OwnID]
	Attempt     int    // counted from 1
	Epoch       int64  // epoch of the daemon; when the store has a higher epoch, another daemon has taken over
	ReadOnly    bool   // the call was assessed as changing nothing
	Run         Run
	Caller      Principal
	OnBehalfOf  string
	Arguments   Arguments
	// Documents is the snapshot that this attempt sees. Nil means that there is none.
	Documents Documents
	Deadline  time.Time
	// Resume is set when a decision started this attempt.
	Resume *ResumeInput
	// Checkpoint is the last checkpoint of earlier attempts.
	Checkpoint []byte
	// Operation is set for [Poller] and [Abandoner] when the call's work continues elsewhere.
	Operation *Operation
	// Reporter receives the reports of the running tool. Nil drops them, which helps in tests.
	Reporter Reporter
}

// A Run is the orchestrator's run that a call belongs to.
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

// An Agent is the agent that the orchestrator runs.
type Agent struct {
	ID   string `json:"agent_id,omitempty"`
	Spec string `json:"spec,omitempty"` // JSON text about the agent; only the orchestrator gives it a meaning
	// Allow and Exclude are globs ([Agent.Offers]). When the agent calls a tool that it is not offered, the call fails as if the tool did
	// not exist.
	Allow   []string `json:"allow,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// A Principal is the identity of a client, as authentication established it.
type Principal struct {
	Namespace string   `json:"namespace,omitempty"`
	Subject   string   `json:"subject,omitempty"`
	Roles     []string `json:"roles,omitempty"`
	Groups    []string `json:"groups,omitempty"` // groups that the credential names; tickets may name them as approvers
	Method    string   `json:"method,omitempty"` // authentication method: peer, token, …
}

// HasRole reports whether a principal has a role.
func (p Principal) HasRole(role string) bool { return slices.Contains(p.Roles, role) }

// A ResumeInput contains the decision with which a suspended call runs again.
type ResumeInput struct {
	SuspensionID string
	Reason       string // action of the ticket
	Round        int
	Result       string // JSON text of the decision; may be empty
	Decision     Decision
	Basis        string // Basis of the description that the approver saw; see [Description.Basis]
}

// A Reporter publishes what happens while a tool runs. Its methods never wait for a watcher. An error means that the call is over, so the
// tool should return.
type Reporter interface {
	Progress(Progress) error
	Activity(id, activityType, content string) error
	ActivityDelta(id, patch string) error
	Output(stream string, b []byte) error
	SaveCheckpoint(b []byte) error
	SaveArtifact(name, mimeType string, b []byte) (Artifact, error)
}

// A Progress reports how far a tool is.
type Progress struct {
	Status   ProgressStatus `json:"status"`
	Fraction float64        `json:"fraction,omitempty"` // 0 to 1; when Fraction and Total are both 0, the progress is unknown
	Message  string         `json:"message,omitempty"`
	Loaded   int64          `json:"loaded,omitempty"`
	Total    int64          `json:"total,omitempty"`
}

// ProgressStatus is the state in a progress event.
type ProgressStatus string

// The progress states.
const (
	ProgressPending   ProgressStatus = "pending"
	ProgressRunning   ProgressStatus = "running"
	ProgressDone      ProgressStatus = "done"
	ProgressFailed    ProgressStatus = "failed"
	ProgressCancelled ProgressStatus = "cancelled"
)

// Check returns an error that says which value a client would not understand. An empty status is not accepted.
func (p *Progress) Check() error {
	switch p.Status {
	case ProgressPending, ProgressRunning, ProgressDone, ProgressFailed, ProgressCancelled:
	default:
		return fmt.Errorf("progress: status %q is not pending, running, done, failed or cancelled", p.Status)
	}
	if !(p.Fraction >= 0 && p.Fraction <= 1) || p.Loaded < 0 || p.Total < 0 {
		return errors.New("progress: fraction must be between 0 and 1, and amounts must not be negative")
	}
	return nil
}

// ErrNoReporter means that a call has no reporter to store data.
var ErrNoReporter = errors.New("call has no reporter")

// Progress publishes how far the tool is. Fraction is from 0 to 1.
func (c *Call) Progress(status ProgressStatus, fraction float64, message string) error {
	return c.ReportProgress(Progress{Status: status, Fraction: fraction, Message: message})
}

// ReportProgress publishes how far the tool is, as a fraction or as amounts.
func (c *Call) ReportProgress(p Progress) error {
	if c.Reporter == nil {
		return nil
	}
	return c.Reporter.Progress(p)
}

// Activity replaces the content of an activity. content must have a JSON form.
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

// ActivityDelta changes an activity with a JSON Patch (RFC 6902). patch is one operation or a list of operations. When the activity has no
// content yet, the patch applies to {}.
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

// Output appends to one of the call's streams, such as stdout. It may wait for the disk, but never for a watcher.
func (c *Call) Output(stream string, b []byte) error {
	if c.Reporter == nil {
		return nil
	}
	return c.Reporter.Output(stream, b)
}

// CheckpointSize is the reason of the error for a checkpoint of more than 16 MiB.
const CheckpointSize = "CHECKPOINT_SIZE"

// SaveCheckpoint stores b for the next attempt. A tool must not repeat work that it finished before the checkpoint. A checkpoint of more
// than 16 MiB is rejected, and the previous one remains.
func (c *Call) SaveCheckpoint(b []byte) error {
	if c.Reporter == nil {
		return ErrNoReporter
	}
	return c.Reporter.SaveCheckpoint(b)
}

// SaveArtifact stores bytes that are too large for a result. The Artifact field of a [Content] refers to the stored artifact by name.
func (c *Call) SaveArtifact(name, mimeType string, b []byte) (Artifact, error) {
	if c.Reporter == nil {
		return Artifact{}, ErrNoReporter
	}
	return c.Reporter.SaveArtifact(name, mimeType, b)
}
