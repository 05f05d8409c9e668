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

// state is a subagent's call between two steps: its checkpoint.
type state struct {
	Version int `json:"v"`
	// Seed makes the ids of the calls, so that nobody can take them before.
	Seed string `json:"seed"`
	// Key is that of the arguments: an approver may give the call others while it waits.
	Key      string        `json:"key,omitempty"`
	Messages []message     `json:"messages"`
	Turns    int           `json:"turns"` // answers of the model
	Calls    int           `json:"calls"`
	Pending  *pending      `json:"pending,omitempty"` // of the newest answer
	Waits    []string      `json:"waits,omitempty"`   // the calls for which it waits
	Usage    usage         `json:"usage"`
	Used     time.Duration `json:"used"` // time that it worked, without that of waiting for people
	// Unseen are calls of an earlier task that were cancelled and whose end nobody saw.
	Unseen []string `json:"unseen,omitempty"`
}

const stateVersion = 1

// usage is what the model's answers took.
type usage struct {
	In        int64 `json:"in"`
	Out       int64 `json:"out"`
	Estimated bool  `json:"estimated,omitempty"` // the endpoint did not say
}

func (u usage) total() int64 { return u.In + u.Out }

// message is a piece of the conversation, in no protocol's words.
type message struct {
	Role    string       `json:"role"` // user, assistant, tool
	Text    string       `json:"text,omitempty"`
	Calls   []toolCall   `json:"calls,omitempty"`   // of the assistant
	Results []toolResult `json:"results,omitempty"` // of tools
}

// toolCall is one as the model is shown it later. Arguments are a JSON object, whatever the model wrote.
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

// pending are the tool calls of an answer that is not answered yet.
type pending struct {
	Requests []Request `json:"requests"`          // of those that become calls
	Results  []result  `json:"results,omitempty"` // of those that have ended or never were calls
	Order    []string  `json:"order"`             // the model's ids
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

// again is the state of a call that was given another task on its way. What it took counts on, and no id comes twice.
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

// decode reads a checkpoint; nil without one.
func decode(checkpoint []byte) (*state, error) {
	if len(checkpoint) == 0 {
		return nil, nil
	}
	s := &state{}
	if err := json.Unmarshal(checkpoint, s); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("checkpoint: it has version %d, this daemon knows %d", s.Version, stateVersion)
	}
	return s, nil
}

func (s *state) encode() ([]byte, error) { return json.Marshal(s) }

// id is a name that follows from the call, the seed and what it is for.
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

// lastWords is the newest text of the model.
func (s *state) lastWords() string {
	for i := len(s.Messages) - 1; i >= 0; i-- {
		if m := &s.Messages[i]; m.Role == roleAssistant && m.Text != "" {
			return m.Text
		}
	}
	return ""
}

// has reports whether a model's id of a tool call was used before.
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
