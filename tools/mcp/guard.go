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

// The bounds of what a server sends.
const (
	MaxMessage  = 16 << 20 // bytes of one message
	maxRefusal  = 1 << 20  // bytes of what an error of HTTP says
	maxForeign  = 16       // answers to what nobody asked
	messageRate = 500      // messages a second; a server that sends more is read more slowly
	messageRoom = 1000     // that may come at once
	byteRate    = 32 << 20 // bytes a second
	maxWaiting  = 10_000   // requests that a server owes an answer
	maxBatch    = 100      // messages in a list of them
)

// The members of _meta in which what a server said is kept as text: as values of the SDK numbers lose digits.
const (
	exactData   = "toold/structuredContent"
	exactInput  = "toold/inputSchema"
	exactOutput = "toold/outputSchema"
	execution   = "toold/execution" // of a tool; the SDK's type has no such member
)

// errForeign ends a connection.
var errForeign = errors.New("the server answers what nobody asked")

// A guard sees all that goes to a server and comes from it.
type guard struct {
	messages, bytes *rate.Limiter
	told            *told

	mu      sync.Mutex
	waiting map[string]*request // by id: requests that were sent and not answered; nil: nobody follows that one
	foreign int
}

func newGuard() *guard {
	return &guard{
		messages: rate.NewLimiter(messageRate, messageRoom), bytes: rate.NewLimiter(byteRate, MaxMessage), told: newTold(), waiting: map[string]*request{},
	}
}

// envelope has the fields that distinguish messages.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

func (e *envelope) hasID() bool { return len(e.ID) > 0 && string(e.ID) != "null" }

// A request is what the guard sees of one request of a call.
type request struct {
	call     *tool.Call
	sent     atomic.Bool
	answered chan []byte // the server's answer; room for one
}

func newRequest(c *tool.Call) *request { return &request{call: c, answered: make(chan []byte, 1)} }

// isTask reports whether the server answered that the call runs as a task. Its result is somewhere else.
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

// requestKey is the key of a context's *request: the one that is sent with it.
type requestKey struct{}

// noteSent notes that the server may have got the request; nil is none.
func (r *request) noteSent() {
	if r != nil {
		r.sent.Store(true)
	}
}

// sending notes a message to the server, and returns the request of a call that it is; nil for every other message. A
// notification that cancels a request has the request's context, too.
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

// received judges a message of the server, waits when they come too fast, and returns it with what the SDK would lose.
func (g *guard) received(ctx context.Context, message []byte) ([]byte, error) {
	if len(message) > MaxMessage {
		return nil, fmt.Errorf("the server sent a message of more than %d bytes", MaxMessage)
	}
	if err := errors.Join(g.messages.Wait(ctx), g.bytes.WaitN(ctx, len(message))); err != nil {
		return nil, err
	}
	var e envelope
	if err := json.Unmarshal(message, &e); err != nil {
		return nil, fmt.Errorf("the server sent what is no message: %w", err)
	}
	if e.Method == "" && e.hasID() {
		if err := g.answered(string(e.ID), message); err != nil {
			return nil, err
		}
	}
	if tells(e.Method) && !e.hasID() {
		g.told.arrive()
	}
	return exact(message), nil
}

func (g *guard) answered(id string, message []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r, ok := g.waiting[id]; ok {
		delete(g.waiting, id)
		if r != nil {
			r.answered <- message // it was deleted: this is the only one
		}
		return nil
	}
	if g.foreign++; g.foreign > maxForeign {
		return errForeign
	}
	return nil
}

// exact keeps the texts of values that hold numbers beside them, in _meta. What is no such message stays as it is.
func exact(message []byte) []byte {
	escaped := bytes.Contains(message, []byte(`\u`)) // any name may be written so
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

// keep puts the texts of members into the object's _meta, under other names; false when it has a _meta that is none.
func keep(object map[string]json.RawMessage, names map[string]string) bool {
	if object == nil {
		return true
	}
	meta := map[string]json.RawMessage{}
	if text, ok := object["_meta"]; ok && string(text) != "null" && json.Unmarshal(text, &meta) != nil {
		return false
	}
	for _, name := range names { // a server's own would be taken for ours
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

// encode is for what has a JSON form.
func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}
