package turn

// aiSDK is the format of the Vercel AI SDK, versions 6 and 7. A call that waits for an approval is answered with an approval request.
type aiSDK struct{}

func (aiSDK) parse(p *parser, m node) error {
	if m.kind() == '[' {
		return m.refuse("is a list; send one assistant message")
	}
	if err := m.assistant("assistant"); err != nil {
		return err
	}
	content := m.get("content")
	if content.kind() == '"' {
		return nil
	}
	if err := content.must('['); err != nil {
		return err
	}
	hosted := map[string]bool{} // ids of calls that the provider ran
	for part := range content.items() {
		if err := (aiSDK{}).part(p, part, hosted); err != nil {
			return err
		}
	}
	return nil
}

func (aiSDK) part(p *parser, part node, hosted map[string]bool) error {
	if err := part.must('{'); err != nil {
		return err
	}
	kind, err := part.get("type").mustString()
	if err != nil {
		return err
	}
	switch kind {
	case "tool-result", "tool-error", "tool-approval-response":
		if id := part.get("toolCallId").str(); !hosted[id] || p.ids[id] {
			return part.forged()
		}
		return nil
	case "tool-input-start", "tool-input-delta", "tool-call-delta":
		return part.refuse("is a part of a stream; send the complete message")
	case "tool-call":
	case "text":
		p.addText(part.get("text"))
		return nil
	default:
		return nil
	}
	texts, err := part.texts("toolCallId", "toolName")
	if err != nil {
		return err
	}
	switch executed := part.get("providerExecuted").raw() == "true"; {
	case executed && p.ids[texts[0]], hosted[texts[0]]:
		return part.refuse("has the id %s a second time; the ids of a turn must be different", quoted(texts[0]))
	case executed:
		hosted[texts[0]] = true
		return nil
	}
	return p.add(&found{at: part, kind: kind, id: texts[0], name: texts[1], arguments: part.get("input").raw(), object: true})
}

type modelMessage struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type toolResult struct {
	Type       string `json:"type"`
	ToolCallID string `json:"toolCallId"`
	ToolName   string `json:"toolName"`
	Output     any    `json:"output"`
}

type approvalRequest struct {
	Type       string `json:"type"`
	ApprovalID string `json:"approvalId"`
	ToolCallID string `json:"toolCallId"`
}

type toolOutput struct {
	Type   string `json:"type"`
	Value  any    `json:"value,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// A mediaOutput holds media in the forms that both supported versions of the AI SDK accept.
type mediaOutput struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	Data      string `json:"data,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Filename  string `json:"filename,omitempty"`
}

type filePart struct {
	Type      string `json:"type"`
	Text      string `json:"text,omitempty"`
	Data      string `json:"data,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}

func (aiSDK) messages(outcomes []outcome) [][]byte {
	out := make([][]byte, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		if o.approval != "" {
			out[i] = encode(modelMessage{"assistant", []any{approvalRequest{"tool-approval-request", o.approval, o.call.ModelCallID}}})
			continue
		}
		out[i] = encode(modelMessage{"tool", []any{toolResult{"tool-result", o.call.ModelCallID, o.call.Name, outputOf(o)}}})
	}
	return out
}

func outputOf(o *outcome) toolOutput {
	switch {
	case o.denied:
		return toolOutput{Type: "execution-denied", Reason: o.text}
	case len(o.media) > 0:
		value := []any{mediaOutput{Type: "text", Text: o.plain()}}
		for _, m := range o.media {
			kind := "file-data"
			if m.image() {
				kind = "image-data"
			}
			value = append(value, mediaOutput{Type: kind, Data: m.base64(), MediaType: m.mime, Filename: m.fileName()})
		}
		return toolOutput{Type: "content", Value: value}
	case o.failed:
		return toolOutput{Type: "error-text", Value: o.text}
	}
	return toolOutput{Type: "text", Value: o.text}
}

func (aiSDK) late(text string, media []medium) []byte {
	parts := []any{filePart{Type: "text", Text: text}}
	for _, m := range media {
		parts = append(parts, filePart{Type: "file", Data: m.base64(), MediaType: m.mime})
	}
	return encode(modelMessage{"user", parts})
}

func (aiSDK) takes(mime string) bool { return isImage(mime) || mime == pdf }
