package model

import (
	"encoding/json"
	"net/http"
	"strings"
)

// messages is the protocol of Anthropic's Messages API.
type messages struct{}

type messagesRequest struct {
	Model     string            `json:"model"`
	MaxTokens int               `json:"max_tokens"`
	Stream    bool              `json:"stream"`
	Messages  []json.RawMessage `json:"messages"`
	Tools     []struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
}

// messagesMessage has all members that the API accepts in a message. The API refuses other members.
type messagesMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

func (messages) prefix() string { return "toolu_" }

func (messages) read(h *http.Request, body []byte) (*request, error) {
	if h.Header.Get("x-api-key") == "" && h.Header.Get("authorization") == "" {
		return nil, &refusal{http.StatusUnauthorized, "authentication_error", "x-api-key header is required", ""}
	}
	var r messagesRequest
	switch err := json.Unmarshal(body, &r); {
	case h.Header.Get("anthropic-version") == "":
		return nil, invalid("", "anthropic-version: header is required")
	case err != nil:
		return nil, invalid("", "The request body is not valid JSON: %v", err)
	case r.Model == "":
		return nil, invalid("", "model: Field required")
	case r.MaxTokens <= 0:
		return nil, invalid("", "max_tokens: Field required")
	case len(r.Messages) == 0:
		return nil, invalid("", "messages: at least one message is required")
	case r.Stream:
		return nil, invalid("", "stream: recording: this model does not stream")
	}
	q := &request{model: r.Model, tools: map[string]bool{}}
	for i, t := range r.Tools {
		if !validToolName(t.Name) || q.tools[t.Name] || !isObjectSchema(t.Schema) {
			return nil, invalid("", "tools.%d: want a unique name that matches '^[a-zA-Z0-9_-]{1,64}$' and an input_schema of the type object", i)
		}
		q.tools[t.Name] = true
	}
	var open *reply // the previous reply of the model, if it has calls
	for i, text := range r.Messages {
		var m messagesMessage
		if err := strict(text, &m); err != nil {
			return nil, invalid("", "messages.%d: Extra inputs are not permitted: %v", i, err)
		}
		blocks, err := blocksOf(i, m.Content)
		if err != nil {
			return nil, err
		}
		switch m.Role {
		case "user":
			err, open = answersOf(i, blocks, open), nil
		case "assistant":
			if open != nil {
				return nil, withoutResult(i-1, open)
			}
			open, err = q.reply(i, blocks)
		default:
			err = invalid("", "messages.%d.role: Input should be 'user' or 'assistant'", i)
		}
		if err != nil {
			return nil, err
		}
	}
	if open != nil {
		return nil, withoutResult(len(r.Messages)-1, open)
	}
	return q, nil
}

func withoutResult(i int, r *reply) error {
	return invalid("", "messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i, missing(r))
}

// blocksOf returns the blocks of a message. A string is one block of text.
func blocksOf(i int, content json.RawMessage) ([]messagesBlock, error) {
	var text string
	if json.Unmarshal(content, &text) == nil {
		content = encode([]any{map[string]any{"type": "text", "text": text}})
	}
	var blocks []messagesBlock
	if err := json.Unmarshal(content, &blocks); err != nil || len(blocks) == 0 {
		return nil, invalid("", "messages.%d.content: Input should be a valid list", i)
	}
	for _, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) == "" {
			return nil, invalid("", "messages: text content blocks must be non-empty")
		}
	}
	return blocks, nil
}

// answersOf checks that the first blocks of a user message answer all calls of the previous reply.
func answersOf(i int, blocks []messagesBlock, open *reply) error {
	text := false
	for n, b := range blocks {
		if b.Type != "tool_result" {
			text = true
			continue
		}
		if open == nil || !calls(open, b.ToolUseID) {
			return invalid("", "messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, n, b.ToolUseID)
		}
		if _, twice := open.answers[b.ToolUseID]; twice {
			return invalid("", "messages.%d.content.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", i, n, b.ToolUseID)
		}
		if text {
			return invalid("", "messages.%d.content.%d: `tool_result` blocks must come before all other blocks of the message", i, n)
		}
		answer, _ := textOf(b.Content) // Ignore the second result: images have no text.
		open.answers[b.ToolUseID] = answer
	}
	if open != nil && len(open.answers) < len(open.calls) {
		return withoutResult(i-1, open)
	}
	return nil
}

// reply adds a message of the model. It returns the reply if its calls need answers.
func (q *request) reply(i int, blocks []messagesBlock) (*reply, error) {
	r := reply{answers: map[string]string{}}
	for n, b := range blocks {
		switch b.Type {
		case "text":
			r.text += b.Text
		case "tool_use":
			if calls(&r, b.ID) {
				return nil, invalid("", "messages.%d.content.%d: `tool_use` ids must be unique", i, n)
			}
			if !validToolName(b.ID) || b.Name == "" || len(b.Input) == 0 {
				return nil, invalid("", "messages.%d.content.%d.tool_use: want id, name and input", i, n)
			}
			r.calls = append(r.calls, Call{id: b.ID, Name: b.Name, Arguments: b.Input})
		default:
			return nil, invalid("", "messages.%d.content.%d: Input tag %q is not a block of an assistant message", i, n, b.Type)
		}
	}
	q.replies = append(q.replies, r)
	if len(r.calls) == 0 {
		return nil, nil
	}
	return &q.replies[len(q.replies)-1], nil
}

func (messages) response(name string, s *Step) any {
	content := []any{}
	if s.Text != "" {
		content = append(content, map[string]any{"type": "text", "text": s.Text})
	}
	reason := "end_turn"
	for _, c := range s.Calls {
		content = append(content, map[string]any{"type": "tool_use", "id": c.id, "name": c.Name, "input": c.Arguments})
		reason = "tool_use"
	}
	if s.Cut {
		reason = "max_tokens"
	}
	return map[string]any{
		"id": "msg_recorded", "type": "message", "role": "assistant", "model": name, "content": content,
		"stop_reason": reason, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}
}

func (messages) refusal(e *refusal) any {
	return map[string]any{"type": "error", "error": map[string]any{"type": e.kind, "message": e.message}}
}
