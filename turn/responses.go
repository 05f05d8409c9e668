package turn

import (
	"encoding/json"
	"slices"
	"strings"
)

// responses is the format of OpenAI's Responses API. Calls are matched by call_id.
type responses struct{}

func (responses) parse(p *parser, output node) error {
	switch {
	case strings.HasPrefix(output.get("type").str(), "response."):
		return output.refuse("is an event of a stream; collect the stream and send the output of the complete response")
	case !output.get("output").absent():
		return output.refuse("is a response; send its output")
	}
	if err := output.must('['); err != nil {
		return err
	}
	hosted := map[string]bool{} // ids of calls that the server ran
	for item := range output.items() {
		if err := (responses{}).item(p, item, hosted); err != nil {
			return err
		}
	}
	return nil
}

// serverSide lists the kinds of items for work that the provider's server has already done.
var serverSide = []string{
	"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "program_output",
}

func (responses) item(p *parser, item node, hosted map[string]bool) error {
	if err := item.must('{'); err != nil {
		return err
	}
	kind, err := item.get("type").mustString()
	if err != nil {
		return err
	}
	id, server := item.get("call_id").str(), isHosted(kind, item)
	switch {
	case kind == "function_call":
		return responses{}.call(p, item)
	case kind == "message":
		for part := range item.get("content").items() {
			p.addText(part.get("text"))
		}
		return item.assistant("assistant")
	case slices.Contains(serverSide, kind):
		return nil
	case kind == "mcp_approval_request":
		return p.add(&found{at: item, kind: kind, id: item.get("id").str(), arguments: item.raw(), object: true, foreign: true})
	case strings.HasSuffix(kind, "_output"), kind == "mcp_approval_response":
		if server && (id == "" || !p.ids[id]) || hosted[id] {
			return nil
		}
		return item.forged()
	case strings.HasSuffix(kind, "_call") && server:
		hosted[id] = true
		return nil
	case strings.HasSuffix(kind, "_call") && id != "": // Without a call_id, the call is not for the client.
		return p.add(&found{at: item, kind: kind, id: id, name: item.get("name").str(), arguments: item.raw(), object: true, foreign: true})
	}
	return nil // reasoning and other items without a call
}

// isHosted reports whether the server ran a call of a kind that a client may run.
func isHosted(kind string, item node) bool {
	switch kind {
	case "tool_search_call", "tool_search_output":
		return item.get("execution").str() == "server"
	case "shell_call":
		return item.get("environment").get("type").str() == "container_reference"
	}
	return false
}

func (responses) call(p *parser, item node) error {
	texts, err := item.texts("call_id", "name", "arguments")
	if err != nil {
		return err
	}
	f := &found{at: item, kind: "function_call", id: texts[0], name: texts[1], arguments: texts[2], caller: item.get("caller").raw()}
	switch item.get("status").str() {
	case "in_progress":
		return item.refuse("is in progress; wait for the complete response")
	case "incomplete":
		f.truncated = true
	}
	if space := item.get("namespace").str(); space != "" && space != f.name { // When the model found a function by a tool search, this member equals the name of the function. Any other value names a toolset that toold does not run.
		f.foreign = true
	}
	return p.add(f)
}

type functionCallOutput struct {
	Type   string          `json:"type"`
	CallID string          `json:"call_id"`
	Output any             `json:"output"`
	Caller json.RawMessage `json:"caller,omitempty"`
}

type inputPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
}

type inputMessage struct {
	Type    string      `json:"type"`
	Role    string      `json:"role"`
	Content []inputPart `json:"content"`
}

func (responses) messages(outcomes []outcome) [][]byte {
	out := make([][]byte, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		item := functionCallOutput{Type: "function_call_output", CallID: o.call.ModelCallID, Output: o.plain(), Caller: json.RawMessage(o.call.Caller)}
		if len(o.media) > 0 {
			item.Output = inputParts(o.plain(), o.media)
		}
		out[i] = encode(item)
	}
	return out
}

func inputParts(text string, media []medium) []inputPart {
	parts := []inputPart{{Type: "input_text", Text: text}}
	for _, m := range media {
		url := "data:" + m.mime + ";base64," + m.base64()
		if m.image() {
			parts = append(parts, inputPart{Type: "input_image", ImageURL: url, Detail: "auto"})
		} else {
			parts = append(parts, inputPart{Type: "input_file", Filename: m.name, FileData: url})
		}
	}
	return parts
}

func (responses) late(text string, media []medium) []byte {
	return encode(inputMessage{Type: "message", Role: "user", Content: inputParts(text, media)})
}

func (responses) takes(mime string) bool { return isImage(mime) || mime == pdf }
