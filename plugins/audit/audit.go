// Package audit records the outcome of each call and the people who decided, in a hash chain that reveals later changes.
//
// It is a [hook.Recorder]: a record commits in the transaction of its event, or not at all. The journal links each record to the previous
// one in its namespace, so a changed or removed record breaks the chain after it. A process that can write the store can also rewrite the
// chain or remove its end. Therefore a [Keeper] signs the end of each chain at intervals, into a file that the operator should copy to
// another machine. [Verify] compares the chain with these signatures. Servers record other requests, such as a reload, with
// [Filter.Operation].
//
// A record contains IDs, names, codes, digests and the IDs of the people who asked and decided. It contains no arguments, results, messages
// or typed reasons. It remains when the content of its call is purged.
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

// Settings say whether a daemon keeps the chain, and where and how often it signs the end of the chain.
type Settings struct {
	Enabled     bool          `yaml:"enabled" help:"write audit records, linked into a chain" see:"plugins/audit.md"`
	Checkpoints string        `yaml:"checkpoints" help:"file to which the daemon appends signed checkpoints; if empty, audit/checkpoints.jsonl in the data directory"`
	Every       time.Duration `yaml:"every" default:"1m" min:"1s" max:"1d" help:"time between two checkpoints"`
}

// Kind is the kind of audit records. The journal chains records of this kind.
const Kind = "audit"

// An Entry is the JSON content of a record. Empty fields are left out.
type Entry struct {
	Event call.EventType `json:"event"`

	// The fields from Tool to Thread are set when Event is "accepted". A record with the Event "resumed" may have Arguments too.
	Tool       string          `json:"tool,omitempty"`
	ToolDigest string          `json:"tool_digest,omitempty"`
	Arguments  string          `json:"arguments_sha256,omitempty"` // SHA-256 of the sent text, or of the edited arguments in a decision
	Caller     *tool.Principal `json:"caller,omitempty"`
	OnBehalfOf string          `json:"on_behalf_of,omitempty"`
	Run        string          `json:"run_id,omitempty"`
	Thread     string          `json:"thread_id,omitempty"`

	Attempt int `json:"attempt,omitempty"` // set when Event is "attempt_started"

	Gate    string `json:"gate,omitempty"` // set when Event is "gate_decided"
	Verdict string `json:"verdict,omitempty"`

	Suspension string `json:"suspension_id,omitempty"` // set when Event is "suspended", "vote_recorded" or "resumed"
	Action     string `json:"action,omitempty"`        // action of the question or of the decision
	Digest     string `json:"digest,omitempty"`        // digest of the question; the answer is valid only for this digest

	Decision string          `json:"decision_id,omitempty"` // set when Event is "vote_recorded" or "resumed"
	By       *tool.Principal `json:"by,omitempty"`          // the principal that decided, voted or cancelled
	Result   string          `json:"answer_sha256,omitempty"`
	Remember *tool.Remember  `json:"remember,omitempty"`       // set when Event is "resumed": the rule that commits with the decision
	Instead  *Instead        `json:"result_instead,omitempty"` // set when Event is "resumed" and a person gave the result in the tool's place
	Cause    string          `json:"cause,omitempty"`          // set when Event is "cancel_requested"

	Status   call.Status   `json:"status,omitempty"` // set when Event is "finished"
	Executed call.Executed `json:"executed,omitempty"`
	Error    string        `json:"error,omitempty"` // code and reason

	Operation string            `json:"operation,omitempty"` // set when Event is "operation", together with By; Error is set too when the operation was refused
	Of        map[string]string `json:"of,omitempty"`
}

// Instead describes a result that a person gave in the tool's place.
type Instead struct {
	Data    string `json:"data_sha256,omitempty"`
	Message string `json:"message_sha256,omitempty"`
	Error   bool   `json:"error,omitempty"`
}

// EventOperation is the event of a record about a request to the daemon. Such a request is not an event of a call, but may name a call.
const EventOperation call.EventType = "operation"

// A Filter is the audit hook. It also collects the namespaces of the calls whose events it sees.
type Filter struct {
	namespaces sync.Map // set of strings
}

// New returns the audit hook.
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

// Operation returns the record of a requested operation. The parameter of contains the IDs, names and settings that the operation concerns.
// The caller must store the record before the operation runs. When the operation is then refused, the caller must store a second record,
// with the reason in refused.
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
		panic(err) // This cannot happen for texts and numbers.
	}
	return b
}

// entry returns the record content for an event. kept is false for progress, activity, output and documents, which are not recorded.
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
		if ev.Suspension != nil { // Earlier versions of toold did not store the suspension.
			e.Suspension = ev.Suspension.ID
		}
		e.Arguments, e.Result, e.Remember = digest(d.Arguments), digest(d.Result), d.Remember
		if d.ResultInstead != nil {
			e.Instead = &Instead{Data: digest(d.ResultInstead.Data), Message: digest(d.ResultInstead.Message), Error: d.ResultInstead.Error}
		}
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

// digest returns the SHA-256 of a text in hex, or "" for an empty text.
func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
