// Package audit records the outcome of each call and the people who decided, in a chain that shows later changes.
//
// It is a [hook.Recorder]: a record commits in the transaction of the event that it is about, or not at all. The journal links
// each to the one before it in its namespace, so that a record that is changed or taken out breaks the chain behind it. Who
// can write the store can also write the chain anew, or cut its end off: against that a [Keeper] signs where the chain stands
// every now and then, into a file that is to be copied away, and [Verify] compares. What is asked for beside calls comes from who
// serves it: [Filter.Operation].
//
// A record holds ids, names, codes, digests and the ids of the people who asked and decided. It holds no arguments, no result, no message
// and no reason that people typed, and stays when the content of its call is purged.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
)

// Settings say whether a daemon keeps the chain, and how it signs it.
type Settings struct {
	Enabled     bool          `yaml:"enabled" help:"keep a chain of audit records" see:"plugins/audit.md"`
	Checkpoints string        `yaml:"checkpoints" help:"file that signed checkpoints are appended to; empty is audit/checkpoints.jsonl in the data directory"`
	Every       time.Duration `yaml:"every" default:"1m" min:"1s" max:"1d" help:"time between two checkpoints"`
}

// Kind is the kind of the records; the journal chains it.
const Kind = "audit"

// An Entry is what a record says, as JSON. Empty fields are left out.
type Entry struct {
	Event call.EventType `json:"event"`

	// Of accepted.
	Tool       string          `json:"tool,omitempty"`
	ToolDigest string          `json:"tool_digest,omitempty"`
	Arguments  string          `json:"arguments_sha256,omitempty"` // of the text that was sent, and of edited arguments in a decision
	Caller     *tool.Principal `json:"caller,omitempty"`
	OnBehalfOf string          `json:"on_behalf_of,omitempty"`
	Run        string          `json:"run_id,omitempty"`
	Thread     string          `json:"thread_id,omitempty"`

	Attempt int `json:"attempt,omitempty"` // of attempt_started

	Gate    string `json:"gate,omitempty"` // of gate_decided
	Verdict string `json:"verdict,omitempty"`

	Suspension string `json:"suspension_id,omitempty"` // of suspended, vote_recorded and resumed
	Action     string `json:"action,omitempty"`        // of the question, or of the decision
	Digest     string `json:"digest,omitempty"`        // what is asked about, and what the answer counts for

	Decision string          `json:"decision_id,omitempty"` // of vote_recorded and resumed
	By       *tool.Principal `json:"by,omitempty"`          // the principal that decided, voted or cancelled
	Result   string          `json:"answer_sha256,omitempty"`
	Remember *tool.Remember  `json:"remember,omitempty"` // of resumed: the rule that commits with the decision
	Cause    string          `json:"cause,omitempty"`    // of cancel_requested

	Status   call.Status   `json:"status,omitempty"` // of finished
	Executed call.Executed `json:"executed,omitempty"`
	Error    string        `json:"error,omitempty"` // code and reason

	Operation string            `json:"operation,omitempty"` // of operation; it has By, and Error when it was refused
	Of        map[string]string `json:"of,omitempty"`
}

// EventOperation is the event of a record of what somebody asked of the daemon beside calls.
const EventOperation call.EventType = "operation"

// A Filter is the hook. It also knows the namespaces of which it saw calls.
type Filter struct {
	namespaces sync.Map // of string
}

// New returns the hook.
func New() *Filter { return &Filter{} }

// Filter implements [hook.Filter]. Events pass unchanged.
func (f *Filter) Filter(in *hook.Input) func(call.Event) ([]call.Event, []hook.Record) {
	record := f.Record(in)
	return func(ev call.Event) ([]call.Event, []hook.Record) { return []call.Event{ev}, record(&ev) }
}

// Observe implements [hook.Observer].
func (f *Filter) Observe(*hook.Input) func(*call.Event) { return func(*call.Event) {} }

// Record implements [hook.Recorder].
func (f *Filter) Record(in *hook.Input) func(*call.Event) []hook.Record {
	f.saw(in.Namespace)
	return func(ev *call.Event) []hook.Record {
		e, ok := entry(in, ev)
		if !ok {
			return nil
		}
		return []hook.Record{{Kind: Kind, Key: in.CallID, Bytes: e.text(), Chained: true}}
	}
}

// Operation returns the record of what somebody asked for, with the ids, names and settings that it is about: before it is done,
// and again with the reason when it is refused.
func (f *Filter) Operation(name string, by tool.Principal, of map[string]string, refused string) hook.Record {
	f.saw(by.Namespace)
	e := Entry{Event: EventOperation, Operation: name, By: &by, Of: of, Error: refused}
	return hook.Record{Kind: Kind, Key: name, Bytes: e.text(), Chained: true}
}

func (f *Filter) saw(namespace string) {
	if _, known := f.namespaces.Load(namespace); !known {
		f.namespaces.Store(namespace, true)
	}
}

func (e *Entry) text() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

// entry returns what is kept of an event, and false when nothing is: of progress, activity, output and documents.
func entry(in *hook.Input, ev *call.Event) (e Entry, kept bool) {
	e.Event = ev.Type
	switch ev.Type {
	case call.EventAccepted:
		caller := in.Caller
		e.Tool, e.ToolDigest, e.Run, e.Thread = ev.Accepted.Tool, ev.Accepted.ToolDigest, ev.Accepted.Run, ev.Accepted.Thread
		e.Caller, e.OnBehalfOf, e.Arguments = &caller, in.OnBehalfOf, digest(in.Requested)
	case call.EventAttemptStarted:
		e.Attempt = ev.Attempt
	case call.EventGateDecided:
		e.Gate, e.Verdict = ev.Verdict.Gate, ev.Verdict.Kind
	case call.EventSuspended:
		e.Suspension, e.Action, e.Digest = ev.Suspension.ID, ev.Suspension.Action, ev.Suspension.Digest
	case call.EventVoteRecorded:
		v := ev.Vote.Vote
		e.Suspension, e.Decision, e.Action, e.By = ev.Vote.SuspensionID, v.DecisionID, string(v.Action), &v.Voter
	case call.EventResumed:
		d := ev.Decision
		by := d.DecidedBy
		e.Decision, e.Action, e.Digest, e.By = d.ID, string(d.Action), d.AppliesTo, &by
		if ev.Suspension != nil { // earlier versions did not name it
			e.Suspension = ev.Suspension.ID
		}
		e.Arguments, e.Result, e.Remember = digest(d.Arguments), digest(d.Result), d.Remember
	case call.EventCancelRequested:
		by := ev.Cancel.By
		e.By, e.Cause = &by, ev.Cancel.Cause
	case call.EventFinished:
		e.Status, e.Executed = ev.Outcome.Status, ev.Outcome.Executed
		if r := ev.Outcome.Result; r != nil && r.Error != nil {
			e.Error = string(r.Error.Code)
			if r.Error.Reason != "" {
				e.Error += " " + r.Error.Reason
			}
		}
	default:
		return e, false
	}
	return e, true
}

// digest is the SHA-256 of a text in hex; empty for none.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
