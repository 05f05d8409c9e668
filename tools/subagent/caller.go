package subagent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Caller gives a subagent access to the daemon. Its methods are called concurrently.
type Caller interface {
	// Tools returns the tools that are offered both to the caller of parent in its run and to the agent, in the format of a protocol.
	Tools(parent *tool.Call, agent tool.Agent, p Protocol) (Toolbox, error)
	// Carry executes a turn, or joins it when it has begun. It returns when all calls have ended, or when the remaining calls wait for a
	// person. It reports events to told meanwhile. A Retryable [*tool.Error] means that no call was started and the same turn may be sent
	// again.
	Carry(ctx context.Context, t *Turn, told func(Event)) ([]Outcome, error)
	// Lend releases the slot of the call whose tool has this context, until back is called. The calls that the tool makes may need the
	// slot.
	Lend(ctx context.Context) (back func(ctx context.Context) error)
	// Cancel ends the remaining calls of a turn. It returns when they have ended or ctx is done. unseen holds the ids of calls without a
	// confirmed end: they continue, or were abandoned.
	Cancel(ctx context.Context, t *Turn, reason string) (unseen []string)
}

// A Toolbox is the set of tools that a model is offered.
type Toolbox struct {
	Tools    json.RawMessage // a list in the protocol's format; empty when there are no tools
	Guidance string
	// Names maps the model's names for tools to their ids.
	Names map[string]string
}

// A Turn is the set of tool calls in one answer of the model.
type Turn struct {
	Parent *tool.Call
	Batch  string
	Run    tool.Run
	Calls  []Request
}

// A Request is a tool call that a model asked for.
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
	Gone    bool   // The daemon no longer has the call.
	Failed  bool   // Text describes a failure, for the model.
	Blocked bool   // The run must not continue.
	Text    string // text for the model when the call has ended
	Waits   string // what the call waits for when it has not ended
}

// An Event reports a change of a call in a turn.
type Event struct {
	Call     string
	Tool     string // empty when an earlier event had it
	Status   string // pending, running, waiting, done, failed, cancelled
	Message  string
	Fraction float64
}

// Action is the action of the tickets with which subagents wait for their calls. These tickets ask no person.
const Action = "subagent"

// Origin is the origin of the runs that subagents start.
const Origin = "subagent"

// Waiting returns the calls that a subagent waits for, from its checkpoint. When all of them have ended, the daemon resumes the subagent.
// The ticket names the calls too, but only for people, and only as far as they contain no secret.
func Waiting(checkpoint []byte) []string {
	s, err := decode(checkpoint)
	if err != nil || s == nil {
		return nil // The subagent resumes at once and reports the error.
	}
	return s.Waits
}

// A Place is a run and a thread.
type Place struct {
	Run    string `json:"r,omitempty"`
	Thread string `json:"t,omitempty"`
}

// aboveLabel is the label of a subagent's calls that lists the places of the calls of its outer subagents, outermost first.
const aboveLabel = "subagent.above"

// Above returns the places in which the subagents above this run were called, outermost first.
func Above(r *tool.Run) (places []Place) {
	_ = json.Unmarshal([]byte(r.Labels[aboveLabel]), &places)
	return append(places, Place{r.ParentRun, r.ParentThread})
}

// RunOf returns the run of the calls that a subagent's call makes, from its checkpoint. It returns "" without a checkpoint.
func RunOf(call string, checkpoint []byte) string {
	s, err := decode(checkpoint)
	if err != nil || s == nil {
		return ""
	}
	return s.run(call)
}

// waitTicket returns the ticket with which a subagent waits. It asks no person. An answer, or the expiry of the ticket, only makes the
// subagent check its calls again.
func waitTicket(open []Outcome) tool.Ticket {
	message := "Stopped on the way; goes on by itself"
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
	parameters, _ := json.Marshal(map[string][]string{"calls": ids(open)}) // Strings always have a JSON form.
	return tool.Ticket{Action: Action, Message: message, Parameters: parameters, ExpiresIn: longest, DefaultResult: "{}"}
}

func ids(open []Outcome) []string {
	ids := make([]string, len(open))
	for i := range open {
		ids[i] = open[i].ID
	}
	return ids
}

// longest is how long a subagent waits before it checks whether it still has to wait.
const longest = 30 * 24 * time.Hour

// maxNamed is how many calls a ticket names in its message.
const maxNamed = 4
