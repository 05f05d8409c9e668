package turn

import "strings"

// openAI is the format of Chat Completions. Its tool messages have text only and no error flag.
type openAI struct{}

func (openAI) parse(p *parser, m node) error {
	switch {
	case m.get("object").str() == "chat.completion.chunk", !m.get("delta").absent():
		return m.refuse("is a chunk of a stream; collect the stream and send the complete choices[0].message")
	case !m.get("choices").absent():
		return m.refuse("is a response; ask for one choice and send choices[0].message")
	}
	if err := m.assistant("assistant"); err != nil {
		return err
	}
	if id := m.get("tool_call_id"); !id.absent() {
		return id.forged()
	}
	if old := m.get("function_call"); !old.absent() {
		return old.refuse("is the older form of a call, which has no id; ask the model with tools, not with functions")
	}
	p.addText(m.get("content"))
	for part := range m.get("content").items() {
		if strings.Contains(part.get("type").str(), "result") {
			return part.forged()
		}
		p.addText(part.get("text"))
	}
	calls := m.get("tool_calls")
	if calls.absent() {
		return nil
	}
	if err := calls.must('['); err != nil {
		return err
	}
	for c := range calls.items() {
		if err := (openAI{}).call(p, c); err != nil {
			return err
		}
	}
	return nil
}

func (openAI) call(p *parser, c node) error {
	if err := c.must('{'); err != nil {
		return err
	}
	id, err := c.get("id").mustString()
	if err != nil {
		return err
	}
	kind, function := c.get("type"), c.get("function")
	if s := kind.str(); !kind.absent() && s != "function" {
		return p.add(&found{at: c, kind: s, id: id, name: c.get(s).get("name").str(), arguments: c.get(s).raw(), foreign: true})
	}
	texts, err := function.texts("name", "arguments")
	if err != nil {
		return err
	}
	if texts[1] == "" && !c.get("index").absent() { // The index alone does not prove that this is a chunk of a stream, because some servers also number complete calls. But complete calls always have arguments.
		return c.refuse("looks like the first chunk of a call; collect the stream and send the complete message")
	}
	return p.add(&found{at: c, kind: "function", id: id, name: texts[0], arguments: texts[1]})
}

type openAIMessage struct {
	Role       string `json:"role"`
	ToolCallID string `json:"tool_call_id,omitempty"`
	Content    any    `json:"content"`
}

func (openAI) messages(outcomes []outcome) [][]byte {
	out := make([][]byte, len(outcomes))
	for i := range outcomes {
		out[i] = encode(openAIMessage{Role: "tool", ToolCallID: outcomes[i].call.ModelCallID, Content: outcomes[i].plain()})
	}
	return out
}

func (openAI) late(text string, _ []medium) []byte {
	return encode(openAIMessage{Role: "user", Content: text})
}

func (openAI) takes(string) bool { return false }
