package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// maxMedia is the maximum size in bytes of all media in a result. Media beyond it become links.
const maxMedia = 4 << 20

// A toolResult is the result of a call. It has the same members as [mcp.CallToolResult], but its structured content consists of exactly the
// bytes that the tool returned.
type toolResult struct {
	mcp.ResultBase
	ResultType string          `json:"resultType,omitempty"`
	Content    []mcp.Content   `json:"content"`
	Structured json.RawMessage `json:"structuredContent,omitempty"`
	IsError    bool            `json:"isError,omitempty"`
}

// finished returns the result of a call that has ended.
func (s *Server) finished(ctx context.Context, c *client, st *state) *toolResult {
	r := st.result
	out := &toolResult{ResultType: c.complete(), IsError: r.GetStatus() == tooldv1.ResultStatus_RESULT_STATUS_ERROR}
	out.Meta = mcp.Meta{metaCall: st.id}
	left := maxMedia
	if data := s.data(ctx, st.id, r, &left); !out.IsError && bytes.HasPrefix(data, []byte("{")) && json.Valid(data) {
		out.Structured = data
	}
	text := cmp.Or(r.GetModelText(), r.GetMessage(), r.GetData())
	out.Content = []mcp.Content{}
	if text != "" || len(r.GetContent()) == 0 {
		out.Content = append(out.Content, &mcp.TextContent{Text: text})
	}
	for _, piece := range r.GetContent() {
		if piece.GetType() == tooldv1.ContentType_CONTENT_TYPE_TEXT && piece.GetText() == text {
			continue
		}
		out.Content = append(out.Content, s.content(ctx, st.id, piece, &left))
	}
	return out
}

// data returns the complete data of a result. If the journal has only the first and the last part, data reads the artifact with the
// complete data, because a client may refuse data that does not match the schema of the tool. If the data is too large or cannot be read,
// data returns nil.
func (s *Server) data(ctx context.Context, id string, r *tooldv1.ToolResult, left *int) []byte {
	var cut struct {
		Truncated bool   `json:"truncated"`
		Artifact  string `json:"artifact"`
	}
	if !r.GetTruncated() || json.Unmarshal([]byte(r.GetData()), &cut) != nil || !cut.Truncated {
		return bytes.TrimSpace([]byte(r.GetData()))
	}
	name, err := url.PathUnescape(path.Base(cut.Artifact))
	if err != nil {
		return nil
	}
	data, _ := s.media(ctx, id, &tooldv1.Content{Artifact: name}, left)
	return bytes.TrimSpace(data)
}

// content converts a piece of a result. left is the size of the media that the result may still contain, in bytes.
func (s *Server) content(ctx context.Context, id string, p *tooldv1.Content, left *int) mcp.Content {
	switch p.GetType() {
	case tooldv1.ContentType_CONTENT_TYPE_TEXT, tooldv1.ContentType_CONTENT_TYPE_DIFF:
		return &mcp.TextContent{Text: p.GetText()}
	case tooldv1.ContentType_CONTENT_TYPE_RESOURCE_LINK:
		return link(id, p)
	}
	data, ok := s.media(ctx, id, p, left)
	if !ok {
		return link(id, p)
	}
	switch p.GetType() {
	case tooldv1.ContentType_CONTENT_TYPE_IMAGE:
		return &mcp.ImageContent{MIMEType: p.GetMimeType(), Data: data}
	case tooldv1.ContentType_CONTENT_TYPE_AUDIO:
		return &mcp.AudioContent{MIMEType: p.GetMimeType(), Data: data}
	}
	resource := &mcp.ResourceContents{URI: uriOf(id, p), MIMEType: p.GetMimeType()}
	if isText(p.GetMimeType()) && utf8.Valid(data) {
		resource.Text = string(data)
	} else {
		resource.Blob = data
	}
	return &mcp.EmbeddedResource{Resource: resource}
}

// media returns the bytes of a piece. It returns false if the piece is too large or cannot be read.
func (s *Server) media(ctx context.Context, id string, p *tooldv1.Content, left *int) ([]byte, bool) {
	data := p.GetData()
	if p.GetText() != "" {
		data = []byte(p.GetText())
	}
	for p.GetArtifact() != "" {
		part, err := s.calls.ReadArtifact(ctx, &tooldv1.ReadArtifactRequest{CallId: id, Name: p.GetArtifact(), Offset: int64(len(data))})
		if err != nil || part.GetTotalSize() > int64(*left) {
			return nil, false
		}
		data = append(slices.Clip(data), part.GetData()...)
		if part.GetEof() || len(part.GetData()) == 0 {
			break
		}
	}
	if len(data) > *left {
		return nil, false
	}
	*left -= len(data)
	return data, true
}

// link returns a link to a piece.
func link(id string, p *tooldv1.Content) *mcp.ResourceLink {
	uri := uriOf(id, p)
	return &mcp.ResourceLink{URI: uri, Name: cmp.Or(p.GetName(), p.GetArtifact(), uri), MIMEType: p.GetMimeType()}
}

// uriOf returns the URI that a piece has, or the handle of its artifact.
func uriOf(id string, p *tooldv1.Content) string {
	return cmp.Or(p.GetUri(), "artifact://"+url.PathEscape(id)+"/"+url.PathEscape(cmp.Or(p.GetArtifact(), p.GetName())))
}

func isText(mime string) bool {
	return strings.HasPrefix(mime, "text/") || strings.HasPrefix(mime, "application/json") || mime == ""
}
