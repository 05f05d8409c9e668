package subagent

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/toold-dev/toold/tool"
)

// state is the state of a subagent's call between two steps. It is the content of the checkpoint.
type state struct {
	Version int `json:"v"`
	// Seed makes the ids of the subagent's calls unpredictable, so that no other client can use these ids first.
	Seed string `json:"seed"`
	// Key is the idempotency key of the subagent's call. A different key shows that an approver has changed the arguments while the call
	// waited.
	Key      string        `json:"key,omitempty"`
	Messages []message     `json:"messages"`
	Turns    int           `json:"turns"` // number of the model's answers so far
	Calls    int           `json:"calls"`
	Pending  *pending      `json:"pending,omitempty"` // tool calls of the newest answer
	Waits    []string      `json:"waits,omitempty"`   // ids of the calls that the subagent waits for
	Usage    usage         `json:"usage"`
	Used     time.Duration `json:"used"` // time that the subagent has worked, without the time that it waited for people
	// Unseen contains the ids of cancelled calls of an earlier task whose end is not confirmed.
	Unseen []string `json:"unseen,omitempty"`
}

const stateVersion = 1

// usage counts the tokens of the model's answers.
type usage struct {
	In        int64 `json:"in"`
	Out       int64 `json:"out"`
	Estimated bool  `json:"estimated,omitempty"` // The endpoint reported no plausible count for at least one answer.
}

func (u usage) total() int64 { return u.In + u.Out }

// message is a message of the conversation, independent of the protocol.
type message struct {
	Role    string       `json:"role"` // user, assistant or tool
	Text    string       `json:"text,omitempty"`
	Calls   []toolCall   `json:"calls,omitempty"`   // set for the role assistant
	Results []toolResult `json:"results,omitempty"` // set for the role tool
}

// toolCall is a tool call in the form that is sent to the model later. Arguments are always a JSON object, even when the model wrote
// something else, because providers reject anything else.
type toolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type toolResult struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
}

// pending contains the tool calls of an answer until the model has received their results.
type pending struct {
	Requests []Request `json:"requests"`          // the tool calls that can become calls of the daemon
	Results  []result  `json:"results,omitempty"` // results of calls that have ended, and errors for tool calls that cannot become calls
	Order    []string  `json:"order"`             // the model's ids of all tool calls, in the order of the answer
}

type result struct {
	toolResult

	Blocked bool `json:"blocked,omitempty"`
}

func (p *pending) result(id string) *result {
	for i := range p.Results {
		if p.Results[i].ID == id {
			return &p.Results[i]
		}
	}
	return nil
}

func newState(c *tool.Call) *state {
	return &state{Version: stateVersion, Seed: rand.Text(), Key: c.IdempotencyKey(), Messages: []message{{Role: roleUser, Text: c.Arguments.String("task")}}}
}

// again returns the state for another task in the same call. The counters keep their values, so that limits still apply and no id is used
// twice.
func (s *state) again(c *tool.Call) *state {
	n := newState(c)
	n.Seed, n.Turns, n.Calls, n.Usage, n.Used, n.Unseen = s.Seed, s.Turns, s.Calls, s.Usage, s.Used, s.Unseen
	return n
}

const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// decode decodes a checkpoint. It returns nil for an empty one.
func decode(checkpoint []byte) (*state, error) {
	if len(checkpoint) == 0 {
		return nil, nil
	}
	s := &state{}
	if err := json.Unmarshal(checkpoint, s); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("checkpoint: version %d is not supported; this daemon supports version %d", s.Version, stateVersion)
	}
	return s, nil
}

func (s *state) encode() ([]byte, error) { return json.Marshal(s) }

// id returns an id that depends on the call, the seed and parts.
func (s *state) id(call string, parts ...string) string {
	b := append([]byte("toold.subagent.v1"), 0)
	for _, p := range append([]string{call, s.Seed}, parts...) {
		b = tool.AppendQuoted(b, p)
	}
	sum := sha256.Sum256(b)
	return "sub-" + hex.EncodeToString(sum[:20])
}

func (s *state) run(call string) string { return s.id(call, "run") }

func (s *state) batch(call string) string { return s.id(call, "turn", strconv.Itoa(s.Turns)) }

func (s *state) call(call string, index int) string {
	return s.id(call, "turn", strconv.Itoa(s.Turns), strconv.Itoa(index))
}

// lastWords returns the newest text of the model. It goes into the result when a limit ends the subagent.
func (s *state) lastWords() string {
	for i := len(s.Messages) - 1; i >= 0; i-- {
		if m := &s.Messages[i]; m.Role == roleAssistant && m.Text != "" {
			return m.Text
		}
	}
	return ""
}

// has reports whether the model has used this id for an earlier tool call.
func (s *state) has(id string) bool {
	for i := range s.Messages {
		for _, c := range s.Messages[i].Calls {
			if c.ID == id {
				return true
			}
		}
	}
	return false
}
