package model

import (
	"encoding/json"
	"net/http"
	"strings"
)

// chatCompletions is the protocol of OpenAI's Chat Completions, which many servers speak.
type chatCompletions struct{}

type chatRequest struct {
	Model    string            `json:"model"`
	Messages []json.RawMessage `json:"messages"`
	Stream   bool              `json:"stream"`
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

// chatMessage has all members that the API accepts in a message. The API refuses other members.
type chatMessage struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	Name         string          `json:"name,omitempty"`
	Refusal      *string         `json:"refusal"`
	Annotations  []any           `json:"annotations,omitempty"`
	Audio        any             `json:"audio,omitempty"`
	FunctionCall any             `json:"function_call,omitempty"`
	ToolCallID   string          `json:"tool_call_id,omitempty"`
	ToolCalls    []chatCall      `json:"tool_calls,omitempty"`
}

type chatCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (chatCompletions) prefix() string { return "call_" }

func (chatCompletions) read(_ *http.Request, body []byte) (*request, error) {
	var r chatRequest
	switch err := json.Unmarshal(body, &r); {
	case err != nil:
		return nil, invalid("", "We could not parse the JSON body of your request: %v", err)
	case r.Model == "":
		return nil, invalid("model", "you must provide a model parameter")
	case len(r.Messages) == 0:
		return nil, invalid("messages", "[] is too short - 'messages'")
	case r.Stream:
		return nil, invalid("stream", "recording: this model does not stream")
	}
	q := &request{model: r.Model, tools: map[string]bool{}}
	for i, t := range r.Tools {
		f := t.Function
		if t.Type != "function" || !validToolName(f.Name) || q.tools[f.Name] || len(f.Parameters) > 0 && !isObjectSchema(f.Parameters) {
			return nil, invalid("tools", "Invalid 'tools[%d]': want the type 'function', a unique name of a-z, A-Z, 0-9, _ and -, and the schema of an object", i)
		}
		q.tools[f.Name] = true
	}
	var open *reply // the last reply, while some of its calls have no answer
	for i, text := range r.Messages {
		var m chatMessage
		if err := strict(text, &m); err != nil {
			return nil, invalid("messages", "Invalid 'messages[%d]': %v", i, err)
		}
		if open != nil && m.Role != "tool" {
			return nil, unanswered(open)
		}
		var err error
		if open, err = q.chat(i, &m, open); err != nil {
			return nil, err
		}
	}
	if open != nil {
		return nil, unanswered(open)
	}
	return q, nil
}

// chat adds a message. It returns the reply whose calls still need answers.
func (q *request) chat(i int, m *chatMessage, open *reply) (*reply, error) {
	text, ok := textOf(m.Content)
	switch m.Role {
	case "system", "developer", "user":
		if !ok || text == "" {
			return nil, invalid("messages", "Invalid value for 'content' of messages[%d]: expected a string, got null.", i)
		}
		return nil, nil
	case "tool":
		if open == nil || !calls(open, m.ToolCallID) {
			return nil, invalid("messages", "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'. (messages[%d], %q)", i, m.ToolCallID)
		}
		if _, twice := open.answers[m.ToolCallID]; twice || !ok {
			return nil, invalid("messages", "Invalid 'messages[%d]': want one answer with text to the call %q", i, m.ToolCallID)
		}
		if open.answers[m.ToolCallID] = text; len(open.answers) == len(open.calls) {
			return nil, nil
		}
		return open, nil
	case "assistant":
	default:
		return nil, invalid("messages", "Invalid value: %q. Supported values are: 'system', 'assistant', 'user', 'tool' and 'developer'. (messages[%d].role)", m.Role, i)
	}
	if !ok && len(m.ToolCalls) == 0 {
		return nil, invalid("messages", "Invalid value for 'content' of messages[%d]: expected a string, got null.", i)
	}
	r := reply{text: text, answers: map[string]string{}}
	for _, c := range m.ToolCalls {
		if c.Type != "function" || c.ID == "" || c.Function.Name == "" || calls(&r, c.ID) {
			return nil, invalid("messages", "Invalid 'messages[%d].tool_calls'", i)
		}
		r.calls = append(r.calls, Call{id: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)})
	}
	q.replies = append(q.replies, r)
	if len(r.calls) == 0 {
		return nil, nil
	}
	return &q.replies[len(q.replies)-1], nil
}

func calls(r *reply, id string) bool {
	for _, c := range r.calls {
		if c.id == id {
			return true
		}
	}
	return false
}

func unanswered(r *reply) error {
	return invalid("messages", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", missing(r))
}

// missing lists the ids of the calls that have no answer.
func missing(r *reply) string {
	var ids []string
	for _, c := range r.calls {
		if _, ok := r.answers[c.id]; !ok {
			ids = append(ids, c.id)
		}
	}
	return strings.Join(ids, ", ")
}

// textOf returns the text of a content: a string, or a list of text parts. It returns false for null, for other parts and for other JSON.
func textOf(content json.RawMessage) (string, bool) {
	var text *string
	if json.Unmarshal(content, &text) == nil {
		if text == nil {
			return "", false
		}
		return *text, true
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return "", false
	}
	var all strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		all.WriteString(p.Text)
	}
	return all.String(), true
}

func (chatCompletions) response(name string, s *Step) any {
	message := chatMessage{Role: "assistant", Content: encode(s.Text)}
	if s.Text == "" {
		message.Content = json.RawMessage("null")
	}
	reason := "stop"
	for _, c := range s.Calls {
		call := chatCall{ID: c.id, Type: "function"}
		call.Function.Name, call.Function.Arguments = c.Name, string(c.Arguments)
		message.ToolCalls = append(message.ToolCalls, call)
		reason = "tool_calls"
	}
	if s.Cut {
		reason = "length"
	}
	return map[string]any{
		"id": "chatcmpl-recorded", "object": "chat.completion", "created": 1700000000, "model": name,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reason, "logprobs": nil}},
		"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	}
}

func (chatCompletions) refusal(e *refusal) any {
	return map[string]any{"error": map[string]any{"message": e.message, "type": e.kind, "param": e.param, "code": nil}}
}
