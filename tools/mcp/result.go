package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toold-dev/toold/tool"
)

const (
	maxInline   = 64 << 10  // maximum size in bytes of an image or document inside a result; a larger one becomes an artifact
	maxTogether = 160 << 10 // maximum size of all inline pieces together, in bytes
	maxContents = 100       // maximum number of pieces in a result
)

// resultOf converts a server's result. The texts become the message, and the structured content becomes the data.
func resultOf(c *tool.Call, r *sdk.CallToolResult) (*tool.Result, error) {
	out := &tool.Result{Status: tool.StatusSuccess}
	var texts []string
	inline := 0
	for i, part := range r.Content {
		if i == maxContents {
			texts = append(texts, fmt.Sprintf("[%d more parts of the result were omitted]", len(r.Content)-maxContents))
			break
		}
		if text, ok := part.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
			continue
		}
		piece, words, err := contentOf(c, i, maxTogether-inline, part)
		if err != nil {
			return nil, err
		}
		inline += len(piece.Data)
		out.Content = append(out.Content, piece)
		texts = append(texts, words)
	}
	out.Message = strings.ToValidUTF8(strings.Join(texts, "\n"), "\uFFFD")
	out.Data = dataOf(r, out.Message)
	if r.IsError {
		if out.Message == "" {
			out.Message = out.Data
		}
		message := out.Message
		if message == `""` || message == "" {
			message = "The tool failed without saying why"
		}
		out.Status, out.Message = tool.StatusError, ""
		out.Error = &tool.Error{Code: tool.ExecutionFailed, Reason: "TOOL_ERROR", Message: message}
	}
	return out, nil
}

// dataOf returns the structured content as the server wrote it. Without one, it returns the text.
func dataOf(r *sdk.CallToolResult, text string) string {
	if exact, ok := r.Meta[exactData].(string); ok && r.StructuredContent != nil && json.Valid([]byte(exact)) {
		return exact
	}
	if r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			return string(b)
		}
	}
	return string(encode(text))
}

// contentOf converts a piece that is not text. It also returns the text that describes the piece in the message.
func contentOf(c *tool.Call, n, room int, part sdk.Content) (tool.Content, string, error) {
	switch part := part.(type) {
	case *sdk.ImageContent:
		return blob(c, tool.Content{Type: tool.ContentImage, MIMEType: part.MIMEType}, n, room, part.Data)
	case *sdk.AudioContent:
		return blob(c, tool.Content{Type: tool.ContentAudio, MIMEType: part.MIMEType}, n, room, part.Data)
	case *sdk.ResourceLink:
		name := part.Title
		if name == "" {
			name = part.Name
		}
		out := tool.Content{Type: tool.ContentLink, URI: cleanLine(part.URI, maxDescription), Name: cleanLine(name, maxTitle), MIMEType: cleanLine(part.MIMEType, maxTitle)}
		return out, "[resource " + out.URI + "]", nil
	case *sdk.EmbeddedResource:
		if part.Resource == nil {
			return tool.Content{Type: tool.ContentDocument}, "[empty resource]", nil
		}
		r := part.Resource
		out := tool.Content{Type: tool.ContentDocument, MIMEType: r.MIMEType, URI: cleanLine(r.URI, maxDescription), Name: cleanLine(r.URI, maxTitle)}
		if len(r.Blob) > 0 {
			return blob(c, out, n, room, r.Blob)
		}
		text := strings.ToValidUTF8(r.Text, "\uFFFD")
		out, _, err := blob(c, out, n, room, []byte(text))
		return out, text, err // The piece is text, which goes into the message for the model.
	}
	return tool.Content{Type: tool.ContentText}, fmt.Sprintf("[content of the unsupported type %T]", part), nil
}

// blob stores bytes in the piece when there is room. Otherwise it stores them as an artifact and puts the artifact's name into the piece.
func blob(c *tool.Call, out tool.Content, n, room int, b []byte) (tool.Content, string, error) {
	out.MIMEType = cleanLine(out.MIMEType, maxTitle)
	words := fmt.Sprintf("[%s, %s, %d bytes]", out.Type, out.MIMEType, len(b))
	if len(b) <= min(maxInline, room) {
		out.Data = b
		return out, words, nil
	}
	kept, err := c.SaveArtifact(fmt.Sprintf("mcp-%d", n), out.MIMEType, b)
	out.Artifact = kept.Name
	return out, words, err
}
