// Package hook defines the six contracts by which plugins take part in the life of a call.
//
//   - [Rewrite] changes the arguments before anything else uses them.
//   - [Gate] allows, blocks or suspends a call, or answers instead of the tool. A Gate has no side effects, because it may be
//     asked at any time: again on resume, and by DescribeCall when nothing will run.
//   - [Admit] enforces rates, loop limits and budgets, once for each attempt.
//   - [Before] prepares documents, once for each allowed attempt. It cannot block.
//   - [After] sees the outcome. It may change what the model reads, but not how the call ended.
//   - [Filter] sees each event before the event is numbered, stored, logged or published.
//
// Two more contracts are not part of a call's path. A [Handler] executes actions after the commit; tools and After hooks request them. A
// [Notifier] decides which services are notified.
//
// A hook never opens the store. It returns documents and [Record]s that must commit with a call.
package hook

import (
	"context"
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// An Input is the input of every hook. Hooks share it and must not modify it.
type Input struct {
	Namespace   string
	CallID      string
	Descriptor  *tool.Descriptor
	ToolDigest  string
	Requested   string         // JSON text as the client sent it
	Arguments   tool.Arguments // effective arguments
	Run         tool.Run
	Caller      tool.Principal
	OnBehalfOf  string
	Assessment  tool.Effects
	Description tool.Description
	Documents   tool.Documents
	Attempt     int   // number of the current or next attempt, from 1
	Epoch       int64 // epoch of the daemon

	answer *tool.Decision
}

// Answer returns the decision on this hook's own question, if the decision is for exactly this call with these arguments. Otherwise it
// returns nil. Decisions on questions of other hooks are not consent to this hook's question.
func (in *Input) Answer() *tool.Decision { return in.answer }

// WithAnswer returns a copy of in for one hook. d is the decision on that hook's question. The engine calls WithAnswer after it has
// compared the digests.
func (in *Input) WithAnswer(d *tool.Decision) *Input {
	c := *in
	c.answer = d
	return &c
}

// An Outcome is the result of an attempt, or of a call that ended without an attempt.
type Outcome = call.Outcome

// A Record is data of a plugin. The engine stores it in the transaction of the call to which it belongs.
type Record struct {
	Kind  string
	Key   string
	Bytes []byte
	// Chained links the record to the previous one of its kind in its namespace, and keeps it when its call is purged. Set it for all
	// records of a kind, or for none.
	Chained bool
}

// A Rewrite returns the arguments for the next hook, as JSON text. Returning in.Arguments.Text() changes nothing.
type Rewrite interface {
	Rewrite(ctx context.Context, in *Input) (string, error)
}

// A Gate decides whether a call continues. An error denies the call, unless the entry's OnFailure says otherwise.
type Gate interface {
	Check(ctx context.Context, in *Input) (Verdict, error)
}

// An Admit reserves capacity for one attempt. release frees the capacity; it may be nil. To refuse the attempt, Admit returns a
// [*tool.Error]; the model gets its message and RetryAfter. Any other error is a failure of the hook.
type Admit interface {
	Admit(ctx context.Context, in *Input) (release func(), err error)
}

// A Before prepares an allowed attempt. It returns commands for documents.
type Before interface {
	Before(ctx context.Context, in *Input) ([]tool.Command, error)
}

// An After sees an outcome, at most once. It gets its own copy of the result and may change data, message, content, display and metadata.
// Changes of status, executed and error code are ignored.
type After interface {
	After(ctx context.Context, in *Input, outcome Outcome) (AfterResult, error)
}

// An AfterResult contains the changes of an After hook. A nil Result leaves the outcome unchanged.
type AfterResult struct {
	Result    *tool.Result
	Documents []tool.Command
	Records   []Record
	Actions   []tool.Action
	// Events are published directly before the end of the call. Only progress, activity snapshots and activity deltas are accepted, within
	// MaxEvents and MaxEventBytes. The engine sets their time, and the filters see them like the events of the tool.
	Events []call.Event
}

// A Filter returns a function for the events of one call. The engine calls the function in order, from one goroutine at a time. The
// function must be deterministic and do no I/O. The events that it returns are numbered, stored and published instead of the original
// event. With EventFinished or EventSuspended, the function must return everything that it has retained.
type Filter interface {
	Filter(in *Input) func(call.Event) ([]call.Event, []Record)
}

// A Fallible is a [Filter] that may fail, for example because it asks another process. The engine calls FilterOrFail instead of Filter.
// After an error the engine drops the informational events of the call. It publishes how the call ended, without the content of the
// outcome.
type Fallible interface {
	Filter
	FilterOrFail(in *Input) func(call.Event) ([]call.Event, []Record, error)
}

// An Observer is a [Filter] that changes nothing. The engine calls Observe instead of Filter, which costs less. The function sees the
// events after all other filters have changed them. An Observer must not keep the input, and its function must not keep the event.
type Observer interface {
	Filter
	Observe(in *Input) func(*call.Event)
}

// A Recorder is an [Observer] that returns records about events. A record commits with its event, or not at all. The engine calls Record
// instead of Observe, before it reads the arguments, so the input does not contain them.
type Recorder interface {
	Observer
	Record(in *Input) func(*call.Event) []Record
}

// A Scrubber is a [Filter] that also redacts data which is stored and published outside of events:
//
//   - descriptions
//   - questions, before their digest is computed
//   - reasons of gates
//   - artifacts that tools save
//   - answers that come too late
//
// Its methods have no side effects, may be called concurrently, and must not modify their input. Arguments, checkpoints and documents are
// not redacted, because tools get them back unchanged.
type Scrubber interface {
	Filter
	Text(string) string
	JSON(string) string // redacts JSON text, which stays valid
	Contents([]tool.Content) []tool.Content
	Result(*tool.Result) *tool.Result
	Artifact(mimeType string, b []byte) []byte
}

// A RunDataOwner is a hook of any kind that stores data about runs. EndRun is called at least once after a run has ended. It may get a run
// that the hook does not know. It must return at once.
type RunDataOwner interface {
	EndRun(namespace, run string)
}

// A CallDataOwner is a hook of any kind that stores data from calls. PurgeCalls is called with purged calls, at least once, before the purge
// returns. The hook must then remove the content of these calls.
type CallDataOwner interface {
	PurgeCalls(namespace string, ids []string)
}

// A Verdict is a gate's answer. The zero Verdict is invalid, so a forgotten decision allows nothing.
type Verdict struct {
	kind   VerdictKind
	reason string
	ticket *tool.Ticket // for KindSuspend
	result *tool.Result
	policy string
	rule   Rule
}

// A Rule describes, for people, the rule by which a gate decided.
type Rule struct {
	Name   string
	Reason string // may be empty
}

// VerdictKind is the kind of a Verdict.
type VerdictKind string

// When gates disagree, Block overrides Suspend, Suspend overrides SetResult, and SetResult overrides Allow.
const (
	KindAllow     VerdictKind = "ALLOW"
	KindBlock     VerdictKind = "BLOCK"
	KindSuspend   VerdictKind = "SUSPEND"
	KindSetResult VerdictKind = "SET_RESULT"
)

// Allow lets the call continue.
func Allow() Verdict { return Verdict{kind: KindAllow} }

// AllowBecause is Allow with a reason for the record, such as an earlier answer.
func AllowBecause(reason string) Verdict { return Verdict{kind: KindAllow, reason: reason} }

// Block fails the call and blocks its run. To refuse only the call, use Deny.
func Block(reason string) Verdict { return Verdict{kind: KindBlock, reason: reason} }

// Suspend asks a person or a program.
func Suspend(t tool.Ticket) Verdict { return Verdict{kind: KindSuspend, ticket: &t, reason: t.Message} }

// SetResult answers instead of the tool. The status must be SUCCESS or ERROR.
func SetResult(r *tool.Result) Verdict { return Verdict{kind: KindSetResult, result: r} }

// Deny refuses only this call. The model reads the reason, and the run continues.
func Deny(reason string) Verdict {
	return SetResult(&tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.Denied, Message: reason}})
}

// Under sets the version of the policy by which the gate decided. The engine stores it with the digest of a question, so that the record
// shows which rules led to the question. toold never compares it.
func (v Verdict) Under(policy string) Verdict {
	v.policy = policy
	return v
}

// By sets the rule by which the gate decided. The records of verdicts and questions show it. toold never compares it.
func (v Verdict) By(r Rule) Verdict {
	v.rule = r
	return v
}

// Because sets a reason for the record. The model does not read it.
func (v Verdict) Because(reason string) Verdict {
	v.reason = reason
	return v
}

// Policy returns the version that Under set.
func (v Verdict) Policy() string { return v.policy }

// Rule returns the rule that By set.
func (v Verdict) Rule() Rule { return v.rule }

// Kind returns the kind of the verdict, or "" for the zero Verdict.
func (v Verdict) Kind() VerdictKind { return v.kind }

// Reason returns why the gate blocks or asks. For an Allow it returns the reason of AllowBecause, or "".
func (v Verdict) Reason() string { return v.reason }

// Ticket returns the question of a Suspend verdict.
func (v Verdict) Ticket() tool.Ticket {
	if v.ticket == nil {
		return tool.Ticket{}
	}
	return *v.ticket
}

// Result returns the result of a SetResult verdict.
func (v Verdict) Result() *tool.Result { return v.result }

// Failure says what happens to the call when a hook fails.
type Failure string

// The values of Failure.
const (
	FailRefuse Failure = ""      // default: the call ends FAILED with code DENIED and reason HOOK_FAILED; the run continues
	FailAllow  Failure = "allow" // the call continues as if the hook had no objection
	FailBlock  Failure = "block" // the same effect as a gate's Block
)

// A ProtocolError means that a hook gave an answer that its kind of hook may not give. It blocks the call, whatever the entry's OnFailure
// says. After hooks run too late to block the call, so their ProtocolError hides the result.
type ProtocolError struct{ Message string }

func (e *ProtocolError) Error() string { return "hook protocol error: " + e.Message }

// Deadlines of entries.
const (
	// DefaultDeadline limits one call of an in-process hook.
	DefaultDeadline = time.Second
	// NoDeadline is for a hook that only computes. The hook runs in the goroutine of the call, which is cheaper, and without a time limit.
	// An After hook cannot use it.
	NoDeadline time.Duration = -1
)

// An Entry is a configured hook.
type Entry[T any] struct {
	Name      string // unique among hooks of its kind; not "tool" or "in_doubt"
	Hook      T
	OnFailure Failure       // applies to Rewrite, Gate and Admit
	Required  bool          // applies to Before and After: a failure changes the outcome of the call
	Deadline  time.Duration // 0 means DefaultDeadline
	Match     Match
}

// A Set contains the hooks of a daemon. The hooks of each kind are called in order.
type Set struct {
	Rewrite []Entry[Rewrite]
	Gate    []Entry[Gate]
	Admit   []Entry[Admit]
	Before  []Entry[Before]
	After   []Entry[After]
	Filter  []Entry[Filter]
	Handler []Entry[Handler]
	// Notifier entries use only their name and hook.
	Notifier []Entry[Notifier]
}
