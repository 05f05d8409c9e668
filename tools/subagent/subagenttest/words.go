package subagenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

func strict(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

type openAIMessage struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
	ToolCallID string `json:"tool_call_id"`
}

func (q *Question) readOpenAI(body []byte) error {
	var r struct {
		Model    string          `json:"model"`
		Messages []openAIMessage `json:"messages"`
		Tools    []struct {
			Type     string `json:"type"`
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
				Strict      bool            `json:"strict"`
			} `json:"function"`
		} `json:"tools"`
		MaxTokens int `json:"max_completion_tokens"`
	}
	if err := strict(body, &r); err != nil {
		return err
	}
	q.Model, q.MaxTokens = r.Model, r.MaxTokens
	for _, t := range r.Tools {
		if t.Type != "function" || len(t.Function.Parameters) == 0 {
			return fmt.Errorf("the tool %+v", t)
		}
		q.Tools = append(q.Tools, t.Function.Name)
	}
	for i := range r.Messages {
		if err := q.add(&r.Messages[i], i); err != nil {
			return err
		}
	}
	return nil
}

func (q *Question) add(m *openAIMessage, i int) error {
	text := ""
	if m.Content != nil {
		text = *m.Content
	}
	switch {
	case m.Role == "system" && i == 0:
		q.System = text
	case m.Role == "tool":
		if n := len(q.Messages); n == 0 || q.Messages[n-1].Role != "tool" {
			q.Messages = append(q.Messages, Message{Role: "tool"})
		}
		last := &q.Messages[len(q.Messages)-1]
		last.Results = append(last.Results, Result{ID: m.ToolCallID, Text: text})
	case m.Role == "user", m.Role == "assistant":
		out := Message{Role: m.Role, Text: text}
		for _, c := range m.ToolCalls {
			if c.Type != "function" {
				return fmt.Errorf("a call of type %q", c.Type)
			}
			out.Calls = append(out.Calls, Call{c.ID, c.Function.Name, c.Function.Arguments})
		}
		q.Messages = append(q.Messages, out)
	default:
		return fmt.Errorf("the role %q at %d", m.Role, i)
	}
	return nil
}

func (r *Reply) openAI() map[string]any {
	message := map[string]any{"role": "assistant", "content": nil}
	if r.Text != "" {
		message["content"] = r.Text
	}
	finish := "stop"
	var calls []any
	for _, c := range r.Calls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
		finish = "tool_calls"
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	if r.Cut {
		finish = "length"
	}
	out := map[string]any{"id": "chatcmpl-1", "object": "chat.completion", "choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}}}
	if !r.NoUsage {
		out["usage"] = map[string]any{"prompt_tokens": r.In, "completion_tokens": r.Out, "total_tokens": r.In + r.Out}
	}
	return out
}

func (q *Question) readAnthropic(body []byte) error {
	var r struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
		System    string `json:"system"`
		Messages  []struct {
			Role    string `json:"role"`
			Content []struct {
				Type      string          `json:"type"`
				Text      string          `json:"text"`
				ID        string          `json:"id"`
				Name      string          `json:"name"`
				Input     json.RawMessage `json:"input"`
				ToolUseID string          `json:"tool_use_id"`
				Content   string          `json:"content"`
				IsError   bool            `json:"is_error"`
			} `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
	}
	if err := strict(body, &r); err != nil {
		return err
	}
	if r.MaxTokens < 1 {
		return fmt.Errorf("max_tokens is required")
	}
	q.Model, q.MaxTokens, q.System = r.Model, r.MaxTokens, r.System
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, t.Name)
	}
	for _, m := range r.Messages {
		out := Message{Role: m.Role}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				if b.Text == "" {
					return fmt.Errorf("an empty text")
				}
				out.Text += b.Text
			case "tool_use":
				out.Calls = append(out.Calls, Call{b.ID, b.Name, string(b.Input)})
			case "tool_result":
				out.Results = append(out.Results, Result{b.ToolUseID, b.Content, b.IsError})
			default:
				return fmt.Errorf("a block of type %q", b.Type)
			}
		}
		q.Messages = append(q.Messages, out)
	}
	return nil
}

// anthropic builds the answer as text, because here the arguments of a call may be invalid JSON.
func (r *Reply) anthropic() string {
	var blocks []byte
	add := func(format string, args ...any) {
		if len(blocks) > 0 {
			blocks = append(blocks, ',')
		}
		blocks = fmt.Appendf(blocks, format, args...)
	}
	stop := "end_turn"
	if r.Text != "" {
		add(`{"type":"text","text":%s}`, quoted(r.Text))
	}
	for _, c := range r.Calls {
		add(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, quoted(c.ID), quoted(c.Name), c.Arguments)
		stop = "tool_use"
	}
	if r.Cut {
		stop = "max_tokens"
	}
	usage := ""
	if !r.NoUsage {
		usage = fmt.Sprintf(`,"usage":{"input_tokens":%d,"output_tokens":%d}`, r.In, r.Out)
	}
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","content":[%s],"stop_reason":%q%s}`, blocks, stop, usage)
}
