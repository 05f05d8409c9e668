// Package subagenttest provides a fake model for tests: an endpoint on the loopback interface. It checks requests as strictly as real
// endpoints do. The test provides the answers.
package subagenttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
)

// A Question is a request to the endpoint, independent of the protocol.
type Question struct {
	Protocol    string // openai or anthropic
	Key         string
	Idempotency string
	Model       string
	System      string
	MaxTokens   int
	Messages    []Message
	Tools       []string
}

// Turns returns the number of answers of the model in the conversation.
func (q *Question) Turns() (n int) {
	for _, m := range q.Messages {
		if m.Role == "assistant" {
			n++
		}
	}
	return n
}

// Task returns the first message.
func (q *Question) Task() string { return q.Messages[0].Text }

// Last returns the newest message.
func (q *Question) Last() Message { return q.Messages[len(q.Messages)-1] }

// A Message is a message of the user, the assistant or a tool.
type Message struct {
	Role    string
	Text    string
	Calls   []Call
	Results []Result
}

// A Call is a tool call. Arguments are sent unchanged, even when they are not JSON.
type Call struct{ ID, Name, Arguments string }

// A Result is the result of a tool.
type Result struct {
	ID, Text string
	Failed   bool // set only in Anthropic's protocol
}

// A Reply is a response of the endpoint. It is an answer of the model unless Status or Body is set.
type Reply struct {
	Text    string
	Calls   []Call
	Cut     bool // The endpoint reports that it cut the answer at its limit of tokens.
	In, Out int  // token counts; sent even when they are negative
	NoUsage bool

	Status int
	Header map[string]string
	Body   string // response body; replaces the answer of the model
}

// A Server is the endpoint.
type Server struct {
	*httptest.Server
	reply func(q *Question) Reply

	mu    sync.Mutex
	asked []Question
	wrong []string
}

// New starts an endpoint. reply is called concurrently.
func New(reply func(q *Question) Reply) *Server {
	s := &Server{reply: reply}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

// Endpoint returns the base URL for a protocol.
func (s *Server) Endpoint(protocol string) string {
	if protocol == "openai" {
		return s.URL + "/v1"
	}
	return s.URL
}

// Asked returns the valid requests so far. wrong describes the requests that violated the protocol.
func (s *Server) Asked() (questions []Question, wrong []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Question(nil), s.asked...), append([]string(nil), s.wrong...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	q, err := read(r, body)
	if err == nil {
		err = q.check()
	}
	s.mu.Lock()
	if err != nil {
		s.wrong = append(s.wrong, err.Error()+": "+string(body))
	} else {
		s.asked = append(s.asked, *q)
	}
	s.mu.Unlock()
	if err != nil {
		http.Error(w, `{"error":{"message":`+quoted(err.Error())+`}}`, http.StatusBadRequest)
		return
	}
	a := s.reply(q)
	for k, v := range a.Header {
		w.Header().Set(k, v)
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case a.Status != 0 || a.Body != "":
		w.WriteHeader(max(a.Status, 200))
		_, _ = io.WriteString(w, a.Body)
	case q.Protocol == "openai":
		_ = json.NewEncoder(w).Encode(a.openAI())
	default:
		_, _ = io.WriteString(w, a.anthropic())
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // Marshal cannot fail for strings.
	return string(b)
}

func read(r *http.Request, body []byte) (*Question, error) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("%s of %q", r.Method, r.Header.Get("Content-Type"))
	}
	q := &Question{Idempotency: r.Header.Get("Idempotency-Key")}
	switch r.URL.Path {
	case "/v1/chat/completions":
		q.Protocol, q.Key = "openai", r.Header.Get("Authorization")
		return q, q.readOpenAI(body)
	case "/v1/messages":
		q.Protocol, q.Key = "anthropic", r.Header.Get("X-Api-Key")
		if r.Header.Get("Anthropic-Version") == "" {
			return nil, fmt.Errorf("no version")
		}
		return q, q.readAnthropic(body)
	}
	return nil, fmt.Errorf("no such path %q", r.URL.Path)
}

var idPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// check returns an error when a provider would reject the request. Each tool call needs a unique id, arguments that are an object, and its
// result in the next message.
func (q *Question) check() error {
	seen := map[string]bool{}
	var open []string
	for i, m := range q.Messages {
		if i == 0 && m.Role != "user" {
			return fmt.Errorf("the first message is of %q", m.Role)
		}
		if len(open) > 0 && len(m.Results) != len(open) || len(open) == 0 && len(m.Results) > 0 {
			return fmt.Errorf("%d results for %d calls", len(m.Results), len(open))
		}
		for j, r := range m.Results {
			if r.ID != open[j] {
				return fmt.Errorf("a result for %q where %q is asked for", r.ID, open[j])
			}
		}
		if open = nil; i > 0 && m.Role == q.Messages[i-1].Role {
			return fmt.Errorf("two messages of %q", m.Role)
		}
		for _, c := range m.Calls {
			var v map[string]any
			if json.Unmarshal([]byte(c.Arguments), &v) != nil || seen[c.ID] || !idPattern.MatchString(c.ID) || !idPattern.MatchString(c.Name) {
				return fmt.Errorf("the call %+v is not to be had back", c)
			}
			seen[c.ID] = true
			open = append(open, c.ID)
		}
		if m.Text == "" && len(m.Calls)+len(m.Results) == 0 {
			return fmt.Errorf("an empty message of %q", m.Role)
		}
	}
	if q.Last().Role == "assistant" {
		return fmt.Errorf("the last message is the model's own")
	}
	return nil
}
