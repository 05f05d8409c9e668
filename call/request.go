package call

import (
	"time"

	"github.com/toold-dev/toold/tool"
)

// ExecuteOptions say how a client watches a call that it starts.
type ExecuteOptions struct {
	// Cursor is the position in the log up to which the client has already received events. If it is empty, the stream begins with a
	// snapshot.
	Cursor string
	// WaitForDecision keeps the stream open across suspensions.
	WaitForDecision bool
	// Attended is set when a stream starts the call. Such a call is cancelled when no client has watched it for the linger time.
	Attended bool
}

// A ResumeRequest answers a suspension.
type ResumeRequest struct {
	SuspensionID    string
	CallID          string // When set, it must be the id of the suspended call.
	Decision        tool.Decision
	WaitForDecision bool
	Cursor          string
}

// A ClaimRequest claims a suspension, or releases the claim.
type ClaimRequest struct {
	SuspensionID string
	For          time.Duration // 0 means 5 minutes, or one hour when To is set
	Release      bool
	TakeOver     bool   // replaces the claim of another principal
	To           string // subject to whom the question is handed over; if it is empty, the principal itself claims the question
}

// TicketRights say what a principal may do with a suspension. Each error says why the principal may not do this. A nil error means that it
// may, if the content of its decision is valid.
type TicketRights struct {
	SuspensionID string
	CallID       string // empty when the principal has no such suspension

	Approve, Decline, Edit, ResultInstead, Remember error

	Scopes []tool.Scope // scopes that the principal may remember an approval for
}

// NoRights returns rights in which err is the reason of every refusal.
func NoRights(suspensionID string, err error) TicketRights {
	return TicketRights{SuspensionID: suspensionID, Approve: err, Decline: err, Edit: err, ResultInstead: err, Remember: err}
}

// A HeldSelector selects held calls of a namespace. Exactly one of its fields is set.
type HeldSelector struct {
	All         bool
	Run, Thread string
	IDs         []string
}

// A PurgeSelector selects the calls of a namespace to purge. Exactly one of its fields is set. For a run or thread, the purge also removes
// its documents and remembered rules.
type PurgeSelector struct {
	IDs         []string
	Run, Thread string
}

// A Preview describes what a call would do.
type Preview struct {
	Valid       bool
	Error       *tool.Error // why the call is not valid
	Effective   string
	Tool        string // the id of the tool
	ToolDigest  string
	Assessment  tool.Effects
	Description tool.Description
	Verdicts    []GateVerdict
	// Outcome is the combined verdict of the gates, as in [GateVerdict.Kind]. Reason is the reason of that verdict.
	Outcome   string
	Reason    string
	Isolation Isolation
	Digest    string // digest that a decision must name; set only for the preview of a decision
}

// An Input is input that a client sends to the terminal of a running call. The fields take effect in their order.
type Input struct {
	Data []byte
	// Position is the offset of Data in all input of the attempt, from 0. Each byte and each signal counts as one. The engine skips input that
	// it has already accepted, so a client may safely send the same input again. With a nil Position, Data is appended to the input.
	Position      *int64
	Attempt       int // 0 means the running attempt
	Rows, Columns int // size of the terminal; 0 leaves it unchanged
	Signal        string
	End           bool // end of input
}

// An InputState is the position of a call's input.
type InputState struct {
	Position int64 // position after all accepted input
	Attempt  int
	Unread   int // bytes that the tool has not read
}

// A DeadLetter is an action that failed permanently.
type DeadLetter struct {
	tool.Action
	ID, CallID, Run, Thread, Caller string
	Round, Attempts                 int
	Error                           string
	Created                         time.Time
	Position                        int64
}
