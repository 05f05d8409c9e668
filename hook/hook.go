// Package hook defines the six contracts by which plugins take part in the life of a call.
//
//   - [Rewrite] changes the arguments before anything else uses them.
//   - [Gate] allows, blocks, suspends, or answers instead of the tool. It has no side effects. It may be asked at any time, again on resume, and by DescribeCall when nothing is going to run.
//   - [Admit] enforces rates, loop limits and budgets, once for each attempt.
//   - [Before] prepares documents, once for each allowed attempt. It cannot block.
//   - [After] sees the outcome. It may change what the model reads, but not how the call ended.
//   - [Filter] sees each event before it is numbered, stored, logged or published.
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
	Requested   string         // JSON text as sent
	Arguments   tool.Arguments // effective arguments
	Run         tool.Run
	Caller      tool.Principal
	OnBehalfOf  string
	Assessment  tool.Effects
	Description tool.Description
	Documents   tool.Documents
	Attempt     int   // number of the current or next attempt, from 1
	Epoch       int64 // of the daemon

	answer *tool.Decision
}

// Answer returns the decision on this hook's own question, if it was given for exactly this call with these arguments; otherwise nil.
// Answers to other hooks are history and give no consent.
func (in *Input) Answer() *tool.Decision { return in.answer }

// WithAnswer returns a copy of in for the hook whose question d answers. The engine calls it after it has compared the digests.
func (in *Input) WithAnswer(d *tool.Decision) *Input {
	c := *in
	c.answer = d
	return &c
}

// An Outcome says how an attempt ended, or a call that never ran.
type Outcome = call.Outcome

// A Record is data of a plugin. The engine stores it in the transaction of the call to which it belongs.
type Record struct {
	Kind  string
	Key   string
	Bytes []byte
	// Chained links the record to the one before it of its kind in its namespace, and keeps it when its call is purged. All records of
	// a kind are chained, or none.
	Chained bool
}

// A Rewrite returns the arguments that the next hook sees, as JSON text; returning in.Arguments.Text() changes nothing.
type Rewrite interface {
	Rewrite(ctx context.Context, in *Input) (string, error)
}

// A Gate decides whether a call continues. An error denies, unless the entry's OnFailure says otherwise.
type Gate interface {
	Check(ctx context.Context, in *Input) (Verdict, error)
}

// An Admit takes a place for one attempt and returns how to give it back; release may be nil. A refusal is a [*tool.Error],
// whose message and RetryAfter the model gets; any other error is a failure of the hook.
type Admit interface {
	Admit(ctx context.Context, in *Input) (release func(), err error)
}

// A Before prepares an attempt that was allowed.
type Before interface {
	Before(ctx context.Context, in *Input) ([]tool.Command, error)
}

// An After sees an outcome, at most once. It gets a result of its own to change: data, message, content, display and
// metadata count; status, executed and error code do not.
type After interface {
	After(ctx context.Context, in *Input, outcome Outcome) (AfterResult, error)
}

// An AfterResult is what an After hook wants: nil Result leaves the outcome as it is.
type AfterResult struct {
	Result    *tool.Result
	Documents []tool.Command
	Records   []Record
	Actions   []tool.Action
}

// A Filter returns the function through which the events of one call pass, in order, from one goroutine at a time. The
// function is deterministic and does no I/O; what it returns is numbered, stored and published in place of the event. The
// last event is always EventFinished or EventSuspended: what was kept back must be let go then.
type Filter interface {
	Filter(in *Input) func(call.Event) ([]call.Event, []Record)
}

// A Fallible is a [Filter] that may fail, such as one that asks another process. The engine calls FilterOrFail in the place
// of Filter. From an error on the events of the call that only report are dropped, and of its outcome nothing is published except
// how it ended.
type Fallible interface {
	Filter
	FilterOrFail(in *Input) func(call.Event) ([]call.Event, []Record, error)
}

// An Observer is a [Filter] that changes nothing. It is asked to observe instead, which costs less, and sees what all
// filters left. It keeps neither the input nor, in its function, the event.
type Observer interface {
	Filter
	Observe(in *Input) func(*call.Event)
}

// A Recorder is an [Observer] that keeps records of what it sees: they commit with the event, or not at all. Record is
// asked in place of Observe; it sees the input from before the arguments were read.
type Recorder interface {
	Observer
	Record(in *Input) func(*call.Event) []Record
}

// A Scrubber is a [Filter] that also looks at what is stored and published beside events: descriptions, questions before their
// digest is made, reasons of gates, artifacts that tools save, and answers that come too late. Its methods are pure and
// may be called from many goroutines; what they get they do not change. Arguments, checkpoints and documents are not
// shown to it: tools get them back as they were.
type Scrubber interface {
	Filter
	Text(string) string
	JSON(string) string // of JSON text, which stays JSON
	Contents([]tool.Content) []tool.Content
	Result(*tool.Result) *tool.Result
	Artifact(mimeType string, b []byte) []byte
}

// A RunKeeper is a hook of any kind that keeps data about runs. It is called when EndRun has ended one, at least once and
// perhaps of a run that it does not know. It returns at once.
type RunKeeper interface {
	EndRun(namespace, run string)
}

// A CallKeeper is a hook of any kind that keeps data from calls. It is called with the calls that were purged, at least
// once, before the purge returns, and keeps nothing of their content then.
type CallKeeper interface {
	PurgeCalls(namespace string, ids []string)
}

// A Verdict is a gate's answer. The zero Verdict is invalid, so a forgotten decision is not a yes.
type Verdict struct {
	kind   VerdictKind
	reason string
	ticket *tool.Ticket // of a Suspend
	result *tool.Result
	policy string
}

// Block beats Suspend beats SetResult beats Allow.
type VerdictKind string

// Block beats Suspend beats SetResult beats Allow.
const (
	KindAllow     VerdictKind = "ALLOW"
	KindBlock     VerdictKind = "BLOCK"
	KindSuspend   VerdictKind = "SUSPEND"
	KindSetResult VerdictKind = "SET_RESULT"
)

// AllowBecause is Allow with a reason for the record, such as an earlier answer.
func Allow() Verdict { return Verdict{kind: KindAllow} }

// Block fails the call and blocks its run. To refuse only the call, use Deny.
func AllowBecause(reason string) Verdict { return Verdict{kind: KindAllow, reason: reason} }

// Suspend asks a person or a program.
func Block(reason string) Verdict { return Verdict{kind: KindBlock, reason: reason} }

// SetResult answers instead of the tool. The status must be SUCCESS or ERROR.
func Suspend(t tool.Ticket) Verdict { return Verdict{kind: KindSuspend, ticket: &t, reason: t.Message} }

// Deny refuses this call only. The model reads the reason, and the run continues.
func SetResult(r *tool.Result) Verdict { return Verdict{kind: KindSetResult, result: r} }

// Deny refuses this one call: the model reads the reason and the run continues.
func Deny(reason string) Verdict {
	return SetResult(&tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.Denied, Message: reason}})
}

// Under names the version of the policy by which the gate decided. It is recorded beside the digest of a question, so that one
// can see later which rules asked; nothing compares it.
func (v Verdict) Under(policy string) Verdict {
	v.policy = policy
	return v
}

// Because gives the verdict a reason for the record. The model does not read it.
func (v Verdict) Because(reason string) Verdict {
	v.reason = reason
	return v
}

// Kind returns the kind of the verdict, or "" for the zero Verdict.
func (v Verdict) Policy() string { return v.policy }

// Reason returns why the gate blocks or asks, and for an allow the reason if it has one.
func (v Verdict) Kind() VerdictKind { return v.kind }

// Ticket returns the question of a Suspend.
func (v Verdict) Reason() string { return v.reason }

// Ticket returns the question of a Suspend.
func (v Verdict) Ticket() tool.Ticket {
	if v.ticket == nil {
		return tool.Ticket{}
	}
	return *v.ticket
}

// Failure says what happens to the call when a hook fails.
func (v Verdict) Result() *tool.Result { return v.result }

// The empty failure mode is FailRefuse.
type Failure string

// the call continues as if the hook had no objection
const (
	FailRefuse Failure = ""      // the call is FAILED, DENIED, HOOK_FAILED; the run continues
	FailAllow  Failure = "allow" // as if the hook had nothing against the call
	FailBlock  Failure = "block" // as if a gate had blocked
)

// A ProtocolError is an answer that a hook of its kind may not give. It blocks the call whatever the entry says of failures;
// an After hook, which comes too late for that, has the result hidden.
type ProtocolError struct{ Message string }

func (e *ProtocolError) Error() string { return "against the protocol of hooks: " + e.Message }

// Deadlines of entries.
const (
	// DefaultDeadline bounds one call of a hook in process.
	DefaultDeadline = time.Second
	// NoDeadline is for a hook that only computes: it is asked in the goroutine of the call, which is cheaper, and nothing
	// bounds it. An After hook cannot have it.
	NoDeadline time.Duration = -1
)

// An Entry is a hook as it is configured.
type Entry[T any] struct {
	Name      string // for Before and After: a failure changes the call
	Hook      T
	OnFailure Failure       // of Rewrite, Gate and Admit
	Required  bool          // of Before and After: a failure changes the call
	Deadline  time.Duration // 0 is DefaultDeadline
	Match     Match
}

// A Set is the hooks of a daemon, each kind in its order.
type Set struct {
	Rewrite []Entry[Rewrite]
	Gate    []Entry[Gate]
	Admit   []Entry[Admit]
	Before  []Entry[Before]
	After   []Entry[After]
	Filter  []Entry[Filter]
	Handler []Entry[Handler]
	// Notifier entries use their name and hook alone.
	Notifier []Entry[Notifier]
}
