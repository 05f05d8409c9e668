// Package model is a language model that follows a recording, for tests of agents.
//
// It speaks two protocols of real providers, without streaming: Chat Completions (POST /chat/completions) and Anthropic's Messages
// (POST /v1/messages). The number of the model's own messages in a request selects the step of the recording, so the model has no state
// and an agent may repeat a request.
//
// The model refuses with status 400 what the real providers refuse, in their words. Above all, each call must have exactly one answer,
// directly after the message with the calls. It also refuses a history that does not fit the recording: with other calls, or with answers
// that do not contain the recorded texts.
package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// A Step is one response of the model.
type Step struct {
	// Results are parts of the answers to the calls of the previous step, in the order of the calls.
	Results []string `json:"results"`
	Text    string   `json:"text"`
	Calls   []Call   `json:"calls"`
	Cut     bool     `json:"cut"` // the output was cut off at the limit of tokens
}

// A Call is one call of a tool. The model makes its id.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // a JSON object
	// Unoffered reports that the request does not offer this tool; real models call such tools at times. For any other call, the model
	// refuses a request that does not offer the tool.
	Unoffered bool `json:"unoffered"`

	id string
}

// Read reads a recording: JSON lines, each a [Step].
func Read(r io.Reader) ([]Step, error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	var steps []Step
	for {
		var s Step
		err := d.Decode(&s)
		if errors.Is(err, io.EOF) {
			return steps, nil
		}
		if err != nil {
			return nil, fmt.Errorf("step %d of the recording: %w", len(steps), err)
		}
		if n := len(steps); n == 0 && len(s.Results) > 0 || n > 0 && len(s.Results) != len(steps[n-1].Calls) {
			return nil, fmt.Errorf("step %d of the recording has %d results; want one for each call of the step before", n, len(s.Results))
		}
		for i, c := range s.Calls {
			var text bytes.Buffer
			if err := json.Compact(&text, c.Arguments); err != nil || !bytes.HasPrefix(text.Bytes(), []byte("{")) {
				return nil, fmt.Errorf("step %d of the recording: the arguments of call %d are no JSON object", len(steps), i)
			}
			s.Calls[i].Arguments = text.Bytes()
		}
		steps = append(steps, s)
	}
}

// A Model serves the recorded responses. It is an [http.Handler].
type Model struct {
	steps []Step
	mux   *http.ServeMux

	mu       sync.Mutex
	answered int
	refused  []string
}

// New returns a model with these steps, which [Read] has checked.
func New(steps []Step) *Model {
	m := &Model{steps: steps, mux: http.NewServeMux()}
	m.mux.Handle("POST /chat/completions", m.handler(chatCompletions{}))
	m.mux.Handle("POST /v1/messages", m.handler(messages{}))
	return m
}

func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// Answered returns the number of the highest step that the model has answered, plus one.
func (m *Model) Answered() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.answered
}

// Refused returns the reason of each refused request.
func (m *Model) Refused() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.refused...)
}

// A protocol translates between a provider's requests and responses and the recording.
type protocol interface {
	// read checks a request by the provider's rules.
	read(r *http.Request, body []byte) (*request, error)
	// response returns a step in the form of the provider. The ids of its calls begin with the result of prefix.
	response(name string, s *Step) any
	prefix() string
	refusal(e *refusal) any
}

// A request has the parts of a request that the model uses.
type request struct {
	model   string
	tools   map[string]bool
	replies []reply
}

// A reply is an earlier response of the model, with the answers to its calls by id.
type reply struct {
	text    string
	calls   []Call
	answers map[string]string
}

// A refusal becomes a response with an error.
type refusal struct {
	status  int
	kind    string
	message string
	param   string // for Chat Completions only
}

func (e *refusal) Error() string { return e.message }

func invalid(param, format string, args ...any) error {
	return &refusal{http.StatusBadRequest, "invalid_request_error", fmt.Sprintf(format, args...), param}
}

const maxRequest = 32 << 20 // limit of Anthropic, in bytes

func (m *Model) handler(p protocol) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, answer, err := m.answer(p, r)
		status := http.StatusOK
		var refused *refusal
		m.mu.Lock()
		if errors.As(err, &refused) {
			m.refused = append(m.refused, refused.message)
			status, answer = refused.status, p.refusal(refused)
		} else {
			m.answered = max(m.answered, n+1)
		}
		m.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // Ignore the error: it means that the agent has disconnected.
	}
}

// answer returns the number of the step and its response. Its errors are refusals.
func (m *Model) answer(p protocol, r *http.Request) (int, any, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return 0, nil, &refusal{http.StatusRequestEntityTooLarge, "request_too_large", err.Error(), ""}
	}
	q, err := p.read(r, body)
	if err != nil {
		return 0, nil, err
	}
	n := len(q.replies)
	if n >= len(m.steps) {
		return 0, nil, invalid("messages", "recording: it has %d steps, and the history has a response to each", len(m.steps))
	}
	for i := range q.replies {
		if err := m.follows(p, i, &q.replies[i]); err != nil {
			return 0, nil, err
		}
	}
	s := m.step(p, n)
	for _, c := range s.Calls {
		if !q.tools[c.Name] && !c.Unoffered {
			return 0, nil, invalid("tools", "recording: step %d calls %s, which the request does not offer", n, c.Name)
		}
	}
	return n, p.response(q.model, s), nil
}

// step returns a step with the ids of its calls. The ids of a step are always the same.
func (m *Model) step(p protocol, n int) *Step {
	s := m.steps[n]
	s.Calls = append([]Call(nil), s.Calls...)
	for i := range s.Calls {
		s.Calls[i].id = fmt.Sprintf("%s%012dX%011d", p.prefix(), n, i)
	}
	return &s
}

// follows checks that response n of the history is the recorded one, and that the answers to it contain the texts of the next step.
func (m *Model) follows(p protocol, n int, got *reply) error {
	want := m.step(p, n)
	if got.text != want.Text || len(got.calls) != len(want.Calls) {
		return invalid("messages", "recording: response %d has the text %q and %d calls, want %q and %d", n, got.text, len(got.calls), want.Text, len(want.Calls))
	}
	for i, c := range got.calls {
		w := want.Calls[i]
		if c.id != w.id || c.Name != w.Name || !sameJSON(c.Arguments, w.Arguments) {
			return invalid("messages", "recording: call %d of response %d is %s %s %s, want %s %s %s", i, n, c.id, c.Name, c.Arguments, w.id, w.Name, w.Arguments)
		}
		if n+1 == len(m.steps) {
			continue
		}
		if answer, part := got.answers[c.id], m.steps[n+1].Results[i]; !strings.Contains(answer, part) {
			return invalid("messages", "recording: the answer to call %d of response %d is %q, which does not contain %q", i, n, answer, part)
		}
	}
	return nil
}

func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && bytes.Equal(encode(x), encode(y))
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // This cannot happen: the value was decoded from JSON.
	}
	return b
}

// strict decodes JSON text into v and refuses members that v does not have.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func validToolName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// isObjectSchema reports whether text is a JSON Schema of an object, as the parameters of a tool must be.
func isObjectSchema(text []byte) bool {
	var schema struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(text, &schema) == nil && schema.Type == "object"
}
