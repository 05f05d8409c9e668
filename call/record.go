package call

import (
	"slices"
	"time"

	"github.com/toold-dev/toold/tool"
)

// Key names a call or a batch.
type Key struct {
	Namespace string
	ID        string
}

// MaxModelIDs limits the ids that a model gives to its calls, in bytes. It applies to the id of one call, and to all ids of a batch or of a
// turn together. toold never shortens or changes such an id. Proxies put data of the provider into it, such as a signed thought of 100 KiB.
// Frames that list the calls of a turn repeat all ids, and this limit keeps them below the size that clients accept.
const MaxModelIDs = 512 << 10

// A Spec is an orchestrator's request for a call.
type Spec struct {
	Tool        string
	Arguments   string // JSON text as sent
	ID          string // When empty, the daemon makes a UUIDv7.
	ModelCallID string // the model's id of the call; any text of at most MaxModelIDs bytes
	Run         tool.Run
	OnBehalfOf  string
	Timeouts    tool.Timeouts
	Linger      *time.Duration // time that the call runs without watchers; nil means the default, a negative value means no limit
	RetryOf     string
	ModelReason string              // why the model made the call, in its words, for people; any text of at most 4 KiB
	Frontend    []tool.FrontendTool // tools that the run's frontend executes
	Turn        TurnCall            // how the call appeared in a model's response; zero for other calls
}

// A TurnCall says how a call appeared in the response of a model.
type TurnCall struct {
	// Strict is set when the tools were exported in strict mode. The engine then removes the nulls that strict mode added.
	Strict bool `json:"strict,omitempty"`
	// Truncated is set when the response ended within the arguments. Such a call never runs, even when its arguments parse.
	Truncated bool `json:"truncated,omitempty"`
}

// Declared returns the frontend tool that the call names, or nil.
func (s *Spec) Declared() *tool.FrontendTool {
	for i := range s.Frontend {
		if s.Frontend[i].Name == s.Tool {
			return &s.Frontend[i]
		}
	}
	return nil
}

// A Call is the record of one invocation.
type Call struct {
	Namespace   string `json:"namespace"`
	ID          string `json:"call_id"`
	ModelCallID string `json:"model_call_id,omitempty"`
	Tool        string `json:"tool"`
	ToolDigest  string `json:"tool_digest,omitempty"`
	RetryOf     string `json:"retry_of,omitempty"`
	ModelReason string `json:"model_reason,omitempty"`

	Run        tool.Run       `json:"run,omitzero"`
	Caller     tool.Principal `json:"caller"`
	OnBehalfOf string         `json:"on_behalf_of,omitempty"`
	// RequestDigest identifies the request. With it, a repeated request can be told from a different request with the same id.
	RequestDigest string        `json:"request_digest"`
	Timeouts      tool.Timeouts `json:"timeouts,omitzero"`
	// Detached calls continue when their caller disconnects.
	Detached bool           `json:"detached,omitempty"`
	Linger   *time.Duration `json:"linger,omitempty"`

	Requested string   `json:"requested"`           // arguments as sent
	Effective string   `json:"effective,omitempty"` // canonical arguments; empty until the arguments were accepted
	Rewriters []string `json:"rewriters,omitempty"` // hooks that changed the arguments

	Class       Class            `json:"class"`
	Status      Status           `json:"status"`
	Executed    Executed         `json:"executed"`
	Assessment  tool.Effects     `json:"assessment,omitzero"`
	Description tool.Description `json:"description,omitzero"`
	Verdicts    []GateVerdict    `json:"verdicts,omitempty"`  // verdicts of the gates when they were last called
	HookRuns    []HookRun        `json:"hook_runs,omitempty"` // oldest first; at most MaxHookRuns
	Rounds      []Round          `json:"rounds,omitempty"`
	Attempts    []Attempt        `json:"attempts,omitempty"`
	Checkpoint  []byte           `json:"checkpoint,omitempty"`
	Cancel      *CancelRequest   `json:"cancel_requested,omitempty"`
	Result      *tool.Result     `json:"result,omitempty"`
	Isolation   Isolation        `json:"isolation,omitzero"`

	// Frontend is the declaration of the tool when the caller's frontend executes it.
	Frontend *tool.FrontendTool `json:"frontend,omitempty"`

	BatchID       string `json:"batch_id,omitempty"`
	BatchPosition int    `json:"batch_position,omitempty"`
	// Turn says how the call appeared in a model's response. It is zero for other calls.
	Turn TurnCall `json:"turn,omitzero"`

	Created  time.Time `json:"created"`
	Started  time.Time `json:"started,omitzero"`
	Ended    time.Time `json:"ended,omitzero"`
	Revision int64     `json:"revision"` // increases by one with each stored change of the record
	// LastSequence is the sequence of the newest event. Epochs says which daemon start wrote which part of the log.
	LastSequence int64        `json:"last_sequence"`
	Epochs       []EpochStart `json:"epochs,omitempty"`
	// Trace is the traceparent of the request that started the call. It is empty when the request was not traced.
	Trace string `json:"trace,omitempty"`
	// Purge is set when the content of the call was erased.
	Purge *Purge `json:"purge,omitempty"`
}

// An EpochStart says that the events from the sequence First on were written in Epoch.
type EpochStart struct {
	Epoch int64 `json:"epoch"`
	First int64 `json:"first"`
}

// A Round is one suspension of a call and its decision. Decision is nil while the suspension is open, and after a cancellation or an expiry
// without a default answer.
type Round struct {
	Suspension Suspension `json:"suspension"`
	// Votes are the valid votes on a ticket that needs several: one for each subject, oldest first. All votes with edited arguments are for
	// the arguments in Proposed.
	Votes    []tool.Vote    `json:"votes,omitempty"`
	Proposed string         `json:"proposed,omitempty"`
	Claim    *Claim         `json:"claim,omitempty"`  // the claim may have ended
	Claims   int            `json:"claims,omitempty"` // number of changes of the claim
	Decision *tool.Decision `json:"decision,omitempty"`
	Expired  bool           `json:"expired,omitempty"`
	Closed   bool           `json:"closed,omitempty"`
}

// A Claim says who looks at an open question. It does not prevent other people from deciding.
type Claim struct {
	By    tool.Principal `json:"by"`
	Since Stamp          `json:"since"`
	Until Stamp          `json:"until"`
	// HandedBy is the principal that handed the question over to By, or nil when By made the claim. After a hand-over, By has only a
	// subject and a namespace.
	HandedBy *tool.Principal `json:"handed_by,omitempty"`
}

// At returns the claim, or nil when it has ended at the time now.
func (c *Claim) At(now Stamp) *Claim {
	if c == nil || now >= c.Until {
		return nil
	}
	return c
}

// An Attempt is one execution of the tool, from intent to result.
type Attempt struct {
	Number  int       `json:"number"`
	Epoch   int64     `json:"epoch"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Saved   bool      `json:"saved,omitempty"` // the attempt saved a checkpoint that differs from the previous one, which counts as progress
	// Operation is set when the tool started work that continues outside the daemon. The attempt stays open until that work ends.
	Operation *Operation `json:"operation,omitempty"`
}

// An AttemptEnd says how an attempt ended.
type AttemptEnd string

// The values of AttemptEnd. A running attempt has none of them.
const (
	EndReturned  AttemptEnd = "RETURNED"
	EndSuspended AttemptEnd = "SUSPENDED"
	EndTimedOut  AttemptEnd = "TIMED_OUT"
	EndStopped   AttemptEnd = "STOPPED"
	EndFailed    AttemptEnd = "FAILED"
	EndLost      AttemptEnd = "LOST" // its end was not observed
)

// AttemptEnd returns how the attempt at index i ended. The record does not store this. Only the last attempt can have the outcome of the
// call; an attempt that ended earlier ended with a question.
func (c *Call) AttemptEnd(i int) AttemptEnd {
	a, last := &c.Attempts[i], i == len(c.Attempts)-1
	switch {
	case a.Ended.IsZero() && last && c.Status == Running:
		return ""
	case a.Ended.IsZero():
		return EndLost
	case !last || !c.Status.Terminal() || !a.Ended.Equal(c.Ended) || c.Result == nil:
		return EndSuspended
	case c.Executed == ExecutedUnknown:
		return EndLost
	case c.Executed == Finished:
		return EndReturned
	case c.Result.Error != nil && c.Result.Error.Code == tool.Timeout:
		return EndTimedOut
	case c.Status == Cancelled:
		return EndStopped
	}
	return EndFailed
}

// An Operation is work of an attempt that continues outside of the daemon.
type Operation struct {
	ID      string        `json:"id"`                   // the tool's id for the operation
	Every   time.Duration `json:"poll_after,omitempty"` // Interval at which the daemon polls. Zero means that it does not poll.
	Expires Stamp         `json:"expires"`
}

// Operation returns the work that an unfinished call waits for, or nil.
func (c *Call) Operation() *Operation {
	n := len(c.Attempts)
	if c.Status != Running || n == 0 || !c.Attempts[n-1].Ended.IsZero() {
		return nil
	}
	return c.Attempts[n-1].Operation
}

// A GateVerdict is the verdict of one gate.
type GateVerdict struct {
	Gate   string `json:"gate"`
	Kind   string `json:"kind"` // ALLOW, BLOCK, SUSPEND, SET_RESULT, DENY, FAILED
	Reason string `json:"reason,omitempty"`
	// Overruled means that a stronger or an earlier verdict won.
	Overruled bool `json:"overruled,omitempty"`
	// Answered means that the gate had a decision that was given for exactly these arguments.
	Answered bool   `json:"answered,omitempty"`
	Rule     string `json:"rule,omitempty"` // name of the gate's rule that decided; may be empty
	// Asked is when the gate was asked. Took is how long it took.
	Asked time.Time     `json:"asked,omitzero"`
	Took  time.Duration `json:"took,omitempty"`
}

// A HookRun is one execution of a hook. Hooks that only compute and never wait are not recorded.
type HookRun struct {
	Kind   string        `json:"kind"` // REWRITE, ADMIT, BEFORE, AFTER
	Hook   string        `json:"hook"`
	Asked  time.Time     `json:"asked"`
	Took   time.Duration `json:"took"`
	Failed bool          `json:"failed,omitempty"`
}

// MaxHookRuns is the maximum number of hook runs in a record. The newest are kept.
const MaxHookRuns = 64

// CauseSuperseded is the cause of a cancel when a new turn replaces an earlier one.
const CauseSuperseded = "SUPERSEDED"

// A CancelRequest is stored before any process is killed.
type CancelRequest struct {
	By     tool.Principal `json:"by,omitzero"`
	Reason string         `json:"reason,omitempty"`
	Cause  string         `json:"cause,omitempty"` // CLIENT, RUN_ENDED, CALLER_GONE, PARENT, CauseSuperseded …
	Time   time.Time      `json:"time"`
}

// Isolation records which isolation the tool required, and which isolation its processes had.
type Isolation struct {
	Required tool.Isolation `json:"required,omitempty"`
	Network  string         `json:"network,omitempty"`
	Facts    []Fact         `json:"facts,omitempty"` // Sorted by name. The slice is shared and must not be modified.
}

// A Fact says whether one property of the isolation holds.
type Fact struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
}

// Holds reports whether a fact is recorded as true.
func (i *Isolation) Holds(name string) bool {
	return slices.Contains(i.Facts, Fact{name, true})
}

// Key returns the namespace and id of the call.
func (c *Call) Key() Key { return Key{c.Namespace, c.ID} }

// Open returns the open suspension, or nil.
func (c *Call) Open() *Suspension {
	if c.Status != Suspended || len(c.Rounds) == 0 {
		return nil
	}
	return &c.Rounds[len(c.Rounds)-1].Suspension
}

// LastRound returns the newest round, or nil.
func (c *Call) LastRound() *Round {
	if len(c.Rounds) == 0 {
		return nil
	}
	return &c.Rounds[len(c.Rounds)-1]
}

// EpochOf returns the epoch in which the event with this sequence was written, or 0 when there is none.
func (c *Call) EpochOf(sequence int64) int64 {
	var epoch int64
	for _, e := range c.Epochs {
		if e.First > sequence {
			break
		}
		epoch = e.Epoch
	}
	return epoch
}

// LastInput returns the input for the tool that the last decision contains, or nil when there is none. It skips an answer about an attempt
// in doubt, which is not for the tool.
func (c *Call) LastInput() *tool.ResumeInput {
	for _, r := range slices.Backward(c.Rounds) {
		if r.Suspension.Origin == OriginDoubt {
			continue
		}
		if r.Decision == nil {
			return nil
		}
		s := &r.Suspension
		return &tool.ResumeInput{SuspensionID: s.ID, Reason: s.Action, Round: s.Round, Result: r.Decision.Result, Decision: *r.Decision, Basis: s.Description.Basis}
	}
	return nil
}
