package subagent

import (
	"encoding/json"
	"net/http"
)

// anthropic implements the Messages API.
type anthropic struct{}

// anthropicTokens is the default limit for the tokens of an answer. The API requires a limit in each request.
const anthropicTokens = 8192

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicRequest struct {
	Model     string             `json:"model"`
	MaxTokens int                `json:"max_tokens"`
	System    string             `json:"system,omitempty"`
	Messages  []anthropicMessage `json:"messages"`
	Tools     json.RawMessage    `json:"tools,omitempty"`
}

func (anthropic) path() string { return "/v1/messages" }

func (anthropic) sign(h http.Header, key string) {
	h.Set("Anthropic-Version", "2023-06-01")
	if key != "" {
		h.Set("X-Api-Key", key)
	}
}

func (anthropic) request(q *question) ([]byte, error) {
	r := anthropicRequest{Model: q.model, System: q.system, Tools: q.tools, MaxTokens: q.answerTokens}
	if r.MaxTokens == 0 {
		r.MaxTokens = anthropicTokens
	}
	for i := range q.messages {
		m := &q.messages[i]
		out := anthropicMessage{Role: "user"}
		if m.Role == roleAssistant {
			out.Role = "assistant"
		}
		if m.Text != "" {
			out.Content = append(out.Content, anthropicBlock{Type: "text", Text: m.Text})
		}
		for _, c := range m.Calls {
			out.Content = append(out.Content, anthropicBlock{Type: "tool_use", ID: c.ID, Name: c.Name, Input: json.RawMessage(c.Arguments)})
		}
		for _, t := range m.Results {
			out.Content = append(out.Content, anthropicBlock{Type: "tool_result", ToolUseID: t.ID, Content: t.Text, IsError: t.Failed})
		}
		r.Messages = append(r.Messages, out)
	}
	return json.Marshal(r)
}

type anthropicResponse struct {
	Type    string `json:"type"`
	Content []struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	} `json:"content"`
	StopReason string `json:"stop_reason"`
	Usage      *struct {
		In      int64 `json:"input_tokens"`
		Out     int64 `json:"output_tokens"`
		Written int64 `json:"cache_creation_input_tokens"`
		Cached  int64 `json:"cache_read_input_tokens"`
	} `json:"usage"`
}

func (anthropic) answer(body []byte) (*answer, error) {
	var r anthropicResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, malformed("it is not the JSON that was expected: %v", err)
	}
	if r.Type != "message" {
		return nil, malformed("its type is %q, not message", clip(r.Type, 40))
	}
	a := &answer{cut: r.StopReason == "max_tokens"}
	for _, b := range r.Content {
		switch b.Type {
		case "text":
			a.text += b.Text
		case "tool_use":
			a.calls = append(a.calls, wanted{b.ID, b.Name, argumentText(b.Input)})
		}
	}
	if r.Usage != nil {
		a.in, a.out = sum(r.Usage.In, r.Usage.Written, r.Usage.Cached), r.Usage.Out
	}
	return a, nil
}
