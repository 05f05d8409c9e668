package subagent

import (
	"encoding/json"
	"net/http"
	"strings"
)

// openAI implements the Chat Completions API. It uses only what many servers support.
type openAI struct{}

type openAIMessage struct {
	Role       string       `json:"role"`
	Content    *string      `json:"content"`
	ToolCalls  []openAICall `json:"tool_calls,omitempty"`
	ToolCallID string       `json:"tool_call_id,omitempty"`
}

type openAICall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type openAIRequest struct {
	Model     string          `json:"model"`
	Messages  []openAIMessage `json:"messages"`
	Tools     json.RawMessage `json:"tools,omitempty"`
	MaxTokens int             `json:"max_completion_tokens,omitempty"`
}

func (openAI) path() string { return "/chat/completions" }

func (openAI) sign(h http.Header, key string) {
	if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
}

func (openAI) request(q *question) ([]byte, error) {
	r := openAIRequest{Model: q.model, Tools: q.tools, MaxTokens: q.answerTokens}
	if q.system != "" {
		r.Messages = append(r.Messages, openAIMessage{Role: "system", Content: &q.system})
	}
	for i := range q.messages {
		m := &q.messages[i]
		switch m.Role {
		case roleUser:
			r.Messages = append(r.Messages, openAIMessage{Role: "user", Content: &m.Text})
		case roleAssistant:
			out := openAIMessage{Role: "assistant"}
			if m.Text != "" || len(m.Calls) == 0 {
				out.Content = &m.Text
			}
			for _, c := range m.Calls {
				out.ToolCalls = append(out.ToolCalls, openAICall{ID: c.ID, Type: "function", Function: openAIFunction{c.Name, c.Arguments}})
			}
			r.Messages = append(r.Messages, out)
		case roleTool:
			for j := range m.Results {
				text := m.Results[j].Text
				r.Messages = append(r.Messages, openAIMessage{Role: "tool", Content: &text, ToolCallID: m.Results[j].ID})
			}
		}
	}
	return json.Marshal(r)
}

type openAIResponse struct {
	Choices []struct {
		Message *struct {
			Content   json.RawMessage `json:"content"`
			Refusal   string          `json:"refusal"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function *struct {
					Name      string          `json:"name"`
					Arguments json.RawMessage `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		In  int64 `json:"prompt_tokens"`
		Out int64 `json:"completion_tokens"`
	} `json:"usage"`
}

func (openAI) answer(body []byte) (*answer, error) {
	var r openAIResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, malformed("it is not the JSON that was expected: %v", err)
	}
	if len(r.Choices) == 0 || r.Choices[0].Message == nil {
		return nil, malformed("it has no message")
	}
	choice := &r.Choices[0]
	text, err := contentText(choice.Message.Content)
	if err != nil {
		return nil, err
	}
	a := &answer{text: text, cut: choice.FinishReason == "length"}
	if a.text == "" {
		a.text = choice.Message.Refusal
	}
	for _, c := range choice.Message.ToolCalls {
		if c.Function == nil {
			return nil, malformed("a tool call has no function")
		}
		a.calls = append(a.calls, wanted{c.ID, c.Function.Name, argumentText(c.Function.Arguments)})
	}
	if r.Usage != nil {
		a.in, a.out = r.Usage.In, r.Usage.Out
	}
	return a, nil
}

// contentText decodes content that is text, a list of text parts, or null.
func contentText(content json.RawMessage) (string, error) {
	var text string
	if len(content) == 0 || json.Unmarshal(content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", malformed("its content is neither text nor parts")
	}
	var all []string
	for _, p := range parts {
		if p.Type == "text" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, ""), nil
}

// argumentText returns the arguments of a tool call as text. The API sends them as a text that should be JSON; some servers send the parsed
// value instead.
func argumentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
