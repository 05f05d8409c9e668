package subagent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/toold-dev/toold/tool"
)

// A Caller is the daemon as a subagent needs it. All methods are called concurrently.
type Caller interface {
	// Tools returns, in the words of a protocol, the tools that are offered to the caller of the parent in its run and to the agent
	// too.
	Tools(parent *tool.Call, agent tool.Agent, p Protocol) (Toolbox, error)
	// Carry carries a turn out, or joins it when it has begun, and returns when nothing of it can move: all calls have ended, or
	// those that have not wait for a person. It reports what happens meanwhile. An [*tool.Error] that is Retryable means that nothing
	// was begun and the same turn may be sent again.
	Carry(ctx context.Context, t *Turn, told func(Event)) ([]Outcome, error)
	// Lend gives the place of the call back whose tool has this context, until back is called: calls of its own may need it.
	Lend(ctx context.Context) (back func(ctx context.Context) error)
	// Cancel ends what is left of a turn. It returns when its calls have ended or ctx is done, with the ids of those whose end nobody
	// saw: they continue, or were abandoned.
	Cancel(ctx context.Context, t *Turn, reason string) (unseen []string)
}

// A Toolbox is what a model is offered.
type Toolbox struct {
	Tools    json.RawMessage // a list in the protocol's words; empty when there is none
	Guidance string
	// Names are the ids of the tools by what the model calls them.
	Names map[string]string
}

// A Turn is the tool calls of one answer of the model.
type Turn struct {
	Parent *tool.Call
	Batch  string
	Run    tool.Run
	Calls  []Request
}

// A Request is a tool call that a model asked for.
type Request struct {
	ID        string `json:"id"` // of the call
	ModelID   string `json:"model_id"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"` // as the model wrote them
}

// An Outcome is how a call of a turn stands.
type Outcome struct {
	ID      string
	Tool    string
	Ended   bool
	Gone    bool   // nothing is known of it any more
	Failed  bool   // for the model: the text is about a failure
	Blocked bool   // the run must not continue
	Text    string // what the model reads, when it has ended
	Waits   string // what it waits for, when it has not
}

// An Event is something that happened to a call of a turn.
type Event struct {
	Call     string
	Tool     string // empty: reported before
	Status   string // pending, running, waiting, done, failed, cancelled
	Message  string
	Fraction float64
}

// Action is of the tickets with which subagents wait for their calls. They are no questions to people.
const Action = "subagent"

// Origin is of the runs that subagents begin.
const Origin = "subagent"

// Waiting returns the calls for which a subagent waits, by its checkpoint: when all of them have ended it resumes. Its ticket names
// them for people alone, as far as nothing in it is a secret.
func Waiting(checkpoint []byte) []string {
	s, err := decode(checkpoint)
	if err != nil || s == nil {
		return nil // it resumes at once, and says what is wrong
	}
	return s.Waits
}

// A Place is a run and a thread.
type Place struct {
	Run    string `json:"r,omitempty"`
	Thread string `json:"t,omitempty"`
}

// aboveLabel is on the calls of subagents: the places in which the subagents were asked, the outermost first.
const aboveLabel = "subagent.above"

// Above returns where the subagents were asked of whom this is the run.
func Above(r *tool.Run) (places []Place) {
	_ = json.Unmarshal([]byte(r.Labels[aboveLabel]), &places)
	return append(places, Place{r.ParentRun, r.ParentThread})
}

// RunOf returns the run in which a call's own calls are, by its checkpoint; "" when it has made none.
func RunOf(call string, checkpoint []byte) string {
	s, err := decode(checkpoint)
	if err != nil || s == nil {
		return ""
	}
	return s.run(call)
}

// waitTicket is how a subagent waits. It asks nobody: an answer of a person makes it look once more, and so does its expiry.
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
	parameters, _ := json.Marshal(map[string][]string{"calls": ids(open)}) // strings have a JSON form
	return tool.Ticket{Action: Action, Message: message, Parameters: parameters, ExpiresIn: longest, DefaultResult: "{}"}
}

func ids(open []Outcome) []string {
	ids := make([]string, len(open))
	for i := range open {
		ids[i] = open[i].ID
	}
	return ids
}

// longest is how long a subagent waits before it looks whether it still has to.
const longest = 30 * 24 * time.Hour

// maxNamed is how many calls a ticket names in words.
const maxNamed = 4
