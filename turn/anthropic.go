package turn

import "strings"

// anthropic is the format of Anthropic's Messages API. All results are in one user message.
type anthropic struct{}

func (anthropic) parse(p *parser, m node) error {
	kind := m.get("type").str()
	switch {
	case strings.HasPrefix(kind, "message_"), strings.HasPrefix(kind, "content_block"):
		return m.refuse("is an event of a stream; collect the stream and send the complete message")
	}
	if err := m.assistant("assistant"); err != nil {
		return err
	}
	p.stopReason = m.get("stop_reason").str()
	if kind == "message" && p.stopReason == "" {
		return m.get("stop_reason").refuse("is empty, so the message still streams; send the complete message")
	}
	content := m.get("content")
	if content.kind() == '"' {
		return nil
	}
	if err := content.must('['); err != nil {
		return err
	}
	for block := range content.items() {
		if err := (anthropic{}).block(p, block); err != nil {
			return err
		}
	}
	return anthropic{}.results(p, content)
}

func (anthropic) block(p *parser, b node) error {
	if err := b.must('{'); err != nil {
		return err
	}
	kind, err := b.get("type").mustString()
	if err != nil {
		return err
	}
	if kind == "text" {
		p.addText(b.get("text"))
	}
	if kind != "tool_use" {
		return nil // The part has no call for the client: it is text, reasoning, or a call that Anthropic's server ran. The method results checks results in the response.
	}
	texts, err := b.texts("id", "name")
	if err != nil {
		return err
	}
	return p.add(&found{
		at: b, kind: kind, id: texts[0], name: texts[1], arguments: b.get("input").raw(), object: true,
		foreign: b.get("toolset_name").str() != "", // the call is for a toolset of the provider, such as a browser
	})
}

// results refuses a response that contains a result, unless it is the result of a call that Anthropic's server ran.
func (anthropic) results(p *parser, content node) error {
	for b := range content.items() {
		kind, id := b.get("type").str(), b.get("tool_use_id").str()
		if kind == "tool_result" || strings.HasSuffix(kind, "_result") && (id == "" || p.ids[id]) {
			return b.forged()
		}
	}
	return nil
}

type block struct {
	Type      string  `json:"type"`
	ToolUseID string  `json:"tool_use_id,omitempty"`
	IsError   bool    `json:"is_error,omitempty"`
	Content   []block `json:"content,omitempty"`
	Text      string  `json:"text,omitempty"`
	Source    *source `json:"source,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

type blockMessage struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

func (anthropic) messages(outcomes []outcome) [][]byte {
	if len(outcomes) == 0 {
		return nil
	}
	m := blockMessage{Role: "user"}
	for i := range outcomes {
		o := &outcomes[i]
		result := block{Type: "tool_result", ToolUseID: o.call.ModelCallID, IsError: o.failed, Content: blocks(o.text, o.media)}
		if len(o.media) > 0 { // The API refuses is_error in a result with content other than text.
			result.IsError, result.Content[0].Text = false, o.plain()
		}
		m.Content = append(m.Content, result)
	}
	return [][]byte{encode(m)}
}

func blocks(text string, media []medium) []block {
	out := []block{{Type: "text", Text: text}}
	for _, m := range media {
		b := block{Type: "document", Source: &source{Type: "base64", MediaType: m.mime, Data: m.base64()}}
		if m.image() {
			b.Type = "image"
		}
		out = append(out, b)
	}
	return out
}

func (anthropic) late(text string, media []medium) []byte {
	return encode(blockMessage{Role: "user", Content: blocks(text, media)})
}

func (anthropic) takes(mime string) bool { return isImage(mime) || mime == pdf }
