package subagent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Caller gives a subagent access to the daemon. Its methods are called concurrently.
type Caller interface {
	// Tools returns the tools of the agent, in the format of a protocol. It includes a tool only if the caller of parent is offered it too,
	// in the run of parent.
	Tools(parent *tool.Call, agent tool.Agent, p Protocol) (Toolbox, error)
	// Carry executes a turn, or joins it when it has already begun. It returns when all calls have ended, or when the remaining calls wait
	// for a person. Meanwhile it passes events to report. A Retryable [*tool.Error] means that no call was started and the same turn may be
	// sent again.
	Carry(ctx context.Context, t *Turn, report func(Event)) ([]Outcome, error)
	// Lend releases the slot of the call whose tool has this context, because the calls that the tool makes may need the slot. back takes a
	// slot again.
	Lend(ctx context.Context) (back func(ctx context.Context) error)
	// Cancel ends the remaining calls of a turn. It returns when they have ended or ctx is done. unseen contains the ids of calls whose end
	// is not confirmed: they may still run.
	Cancel(ctx context.Context, t *Turn, reason string) (unseen []string)
}

// A Toolbox is the set of tools that a model is offered.
type Toolbox struct {
	Tools    json.RawMessage // a list in the protocol's format; empty when there are no tools
	Guidance string
	// Names maps the name of a tool that the model uses to the tool's id.
	Names map[string]string
}

// A Turn is the set of tool calls in one answer of the model.
type Turn struct {
	Parent *tool.Call
	Batch  string
	Run    tool.Run
	Calls  []Request
}

// A Request is a tool call that the model requested.
type Request struct {
	ID        string `json:"id"` // id of the call
	ModelID   string `json:"model_id"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"` // as the model wrote them
}

// An Outcome is the state of a call in a turn.
type Outcome struct {
	ID      string
	Tool    string
	Ended   bool
	Missing bool   // The daemon no longer has the call.
	Failed  bool   // The call failed, and Text describes the failure for the model.
	Blocked bool   // The call blocked its run, so further calls in this run are not permitted.
	Text    string // text for the model when the call has ended
	Waits   string // what the call waits for, while it has not ended
}

// An Event reports a change of a call in a turn.
type Event struct {
	Call     string
	Tool     string // may be empty when an earlier event of the call contained it
	Status   string // pending, running, waiting, done, failed, cancelled
	Message  string
	Fraction float64
}

// Action is the action of the tickets with which subagents wait for their calls. Such a ticket is not a question to a person.
const Action = "subagent"

// Origin is the origin of the runs that subagents start.
const Origin = "subagent"

// Waiting returns the ids of the calls that a subagent waits for, from its checkpoint. When all of them have ended, the daemon resumes the
// subagent. The ticket also lists calls, but it is not reliable for this: it is for people, and the redaction of secrets may change it.
func Waiting(checkpoint []byte) []string {
	s, err := decode(checkpoint)
	if err != nil || s == nil {
		return nil // With no calls to wait for, the subagent resumes at once and reports the error.
	}
	return s.Waits
}

// An Ancestor is a run and a thread.
type Ancestor struct {
	Run    string `json:"r,omitempty"`
	Thread string `json:"t,omitempty"`
}

// aboveLabel is a label of the calls that a subagent makes. Its value lists, outermost first, the [Ancestor] of each outer subagent's call and
// of the subagent's own call.
const aboveLabel = "subagent.above"

// Above returns the run and thread of each subagent call that led to this run, outermost first.
func Above(r *tool.Run) (ancestors []Ancestor) {
	_ = json.Unmarshal([]byte(r.Labels[aboveLabel]), &ancestors)
	return append(ancestors, Ancestor{r.ParentRun, r.ParentThread})
}

// RunOf returns the id of the run in which a subagent makes its calls, from the checkpoint of the subagent's call. It returns "" without a
// checkpoint.
func RunOf(call string, checkpoint []byte) string {
	s, err := decode(checkpoint)
	if err != nil || s == nil {
		return ""
	}
	return s.run(call)
}

// waitTicket returns the ticket with which a subagent waits for its calls. It is not a question to a person. An answer, or the expiry of
// the ticket, only makes the subagent check its calls again.
func waitTicket(open []Outcome) tool.Ticket {
	message := "Paused; resumes automatically"
	for i, o := range open {
		if i == 0 {
			message = "Waits for " + o.Tool
		} else if i < maxNamed {
			message += ", " + o.Tool
		}
		if o.Waits != "" && i < maxNamed {
			message += " (" + o.Waits + ")"
		}
	}
	if len(open) > maxNamed {
		message += " …"
	}
	parameters, _ := json.Marshal(map[string][]string{"calls": ids(open)}) // Marshal cannot fail for strings.
	return tool.Ticket{Action: Action, Message: message, Parameters: parameters, ExpiresIn: longest, DefaultResult: "{}"}
}

func ids(open []Outcome) []string {
	ids := make([]string, len(open))
	for i := range open {
		ids[i] = open[i].ID
	}
	return ids
}

// longest is the maximum time that a subagent waits before it checks its calls again.
const longest = 30 * 24 * time.Hour

// maxNamed is the maximum number of calls that the message of a ticket lists.
const maxNamed = 4
