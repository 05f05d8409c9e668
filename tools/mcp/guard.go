package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/toold-dev/toold/tool"
)

// Limits for the messages of a server.
const (
	MaxMessage  = 16 << 20 // maximum size of one message, in bytes
	maxRefusal  = 1 << 20  // maximum size of an HTTP error response, in bytes
	maxForeign  = 16       // number of answers to unknown requests at which the connection ends
	messageRate = 500      // messages per second; the daemon reads no faster
	messageRoom = 1000     // messages that may arrive in one burst
	byteRate    = 32 << 20 // bytes per second; the daemon reads no faster
	maxWaiting  = 10_000   // maximum number of unanswered requests that the guard remembers
	maxBatch    = 100      // maximum number of messages in one batch
)

// Members that the guard adds to _meta. They contain the JSON text of other members, because the SDK decodes numbers with a loss of digits.
const (
	exactData   = "toold/structuredContent"
	exactInput  = "toold/inputSchema"
	exactOutput = "toold/outputSchema"
	execution   = "toold/execution" // the member execution of a tool, which the SDK's type for tools does not have
)

// errForeign ends a connection on which the server answered too many requests that the daemon did not send.
var errForeign = errors.New("the server sent too many responses without a request")

// A guard checks all messages to and from a server.
type guard struct {
	messages, bytes *rate.Limiter
	reports         *reports

	mu      sync.Mutex
	waiting map[string]*request // open requests by id; the value is nil for a request that is not for a call
	foreign int
}

func newGuard() *guard {
	return &guard{
		messages: rate.NewLimiter(messageRate, messageRoom), bytes: rate.NewLimiter(byteRate, MaxMessage), reports: newReports(), waiting: map[string]*request{},
	}
}

// envelope has the members by which kinds of messages differ.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

func (e *envelope) hasID() bool { return len(e.ID) > 0 && string(e.ID) != "null" }

// A request is what the guard stores about one request for a call.
type request struct {
	call     *tool.Call
	sent     atomic.Bool
	answered chan []byte // gets the server's answer; has a buffer for one
}

func newRequest(c *tool.Call) *request { return &request{call: c, answered: make(chan []byte, 1)} }

// isTask reports whether the server answered that it runs the call as a task. Such an answer does not contain the result.
func (r *request) isTask() bool {
	select {
	case answer := <-r.answered:
		var message struct {
			Result struct {
				Type string          `json:"resultType"`
				Task json.RawMessage `json:"task"`
			} `json:"result"`
		}
		return json.Unmarshal(answer, &message) == nil && (message.Result.Type == "task" || len(message.Result.Task) > 0)
	default:
		return false
	}
}

// requestKey is the context key of the *request that is sent with the context.
type requestKey struct{}

// noteSent records that the server may have received the request. It does nothing for a nil r.
func (r *request) noteSent() {
	if r != nil {
		r.sent.Store(true)
	}
}

// sending records a request that is sent to the server, and returns the *request in the context. It returns nil for a request that is not
// for a call, and for other messages. The notification that cancels a request has the same context, but is not a request.
func (g *guard) sending(ctx context.Context, message []byte) *request {
	var e envelope
	if json.Unmarshal(message, &e) != nil || e.Method == "" || !e.hasID() {
		return nil
	}
	r, _ := ctx.Value(requestKey{}).(*request)
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.waiting {
		if len(g.waiting) < maxWaiting {
			break
		}
		delete(g.waiting, id)
	}
	g.waiting[string(e.ID)] = r
	return r
}

// received checks a message from the server. When messages arrive too fast, it waits. It returns the message with additional members in
// _meta that contain what the SDK would lose.
func (g *guard) received(ctx context.Context, message []byte) ([]byte, error) {
	if len(message) > MaxMessage {
		return nil, fmt.Errorf("the server sent a message of more than %d bytes", MaxMessage)
	}
	if err := errors.Join(g.messages.Wait(ctx), g.bytes.WaitN(ctx, len(message))); err != nil {
		return nil, err
	}
	var e envelope
	if err := json.Unmarshal(message, &e); err != nil {
		return nil, fmt.Errorf("the server sent an invalid message: %w", err)
	}
	if e.Method == "" && e.hasID() {
		if err := g.answered(string(e.ID), message); err != nil {
			return nil, err
		}
	}
	if isReport(e.Method) && !e.hasID() {
		g.reports.arrive()
	}
	return exact(message), nil
}

func (g *guard) answered(id string, message []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.waiting[id]; ok {
		delete(g.waiting, id)
		if r != nil {
			r.answered <- message // This does not block: the request is no longer in waiting, so it gets no other answer.
		}
		return nil
	}
	if g.foreign++; g.foreign > maxForeign {
		return errForeign
	}
	return nil
}

// exact adds to _meta the JSON text of members that may contain numbers. It returns messages without such members unchanged.
func exact(message []byte) []byte {
	escaped := bytes.Contains(message, []byte(`\u`)) // With \u escapes, the name of a member can be written in many ways, so a simple search is not enough.
	structured := escaped || bytes.Contains(message, []byte(`"structuredContent"`))
	if !structured && !bytes.Contains(message, []byte(`"inputSchema"`)) {
		return message
	}
	var outer, result map[string]json.RawMessage
	if json.Unmarshal(message, &outer) != nil || json.Unmarshal(outer["result"], &result) != nil {
		return message
	}
	if structured && !keep(result, map[string]string{"structuredContent": exactData}) {
		return message
	}
	if result == nil {
		return message
	}
	var tools []map[string]json.RawMessage
	if json.Unmarshal(result["tools"], &tools) == nil && len(tools) > 0 {
		for _, t := range tools {
			if !keep(t, map[string]string{"inputSchema": exactInput, "outputSchema": exactOutput, "execution": execution}) {
				return message
			}
		}
		result["tools"] = encode(tools)
	}
	outer["result"] = encode(result)
	return encode(outer)
}

// keep stores the JSON texts of members in the _meta of object. names maps each member to the name in _meta. keep returns false when _meta
// is not an object.
func keep(object map[string]json.RawMessage, names map[string]string) bool {
	if object == nil {
		return true
	}
	meta := map[string]json.RawMessage{}
	if text, ok := object["_meta"]; ok && string(text) != "null" && json.Unmarshal(text, &meta) != nil {
		return false
	}
	for _, name := range names { // A server must not set these names itself, so they are deleted first.
		delete(meta, name)
	}
	for member, name := range names {
		if text, ok := object[member]; ok {
			meta[name] = encode(string(text))
		}
	}
	object["_meta"] = encode(meta)
	return true
}

// encode returns v as JSON, or null when v has no JSON form.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
