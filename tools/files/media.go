package files

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// mediaType returns the media type of an image or document that models accept, or "". It looks only at the bytes, never at the name.
func mediaType(head []byte) string {
	switch mime := http.DetectContentType(head); mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return mime
	}
	return ""
}

// isBinary reports whether the bytes contain a NUL byte, which is also git's rule.
func isBinary(head []byte) bool { return bytes.IndexByte(head, 0) >= 0 }

type mediaData struct {
	Path     string `json:"path"`
	MIMEType string `json:"mime_type"`
	Size     int    `json:"size"`
	SHA256   string `json:"sha256"`
	Artifact string `json:"artifact,omitempty"`
}

func (t *read) media(call *tool.Call, p resolvedPath, in io.Reader, mime string) (*tool.Result, error) {
	b, err := io.ReadAll(io.LimitReader(in, t.limits.MediaSize+1))
	if err != nil {
		return nil, explain(p.path, err)
	}
	if int64(len(b)) > t.limits.MediaSize {
		return nil, refuse(reasonTooLarge, "%s (%s) is larger than %d bytes, the limit for a result.", quote(p.path), mime, t.limits.MediaSize)
	}
	data := mediaData{Path: exact(p.path), MIMEType: mime, Size: len(b), SHA256: sumOf(b)}
	content := tool.Content{Type: tool.ContentImage, MIMEType: mime, Name: mediaName(p)}
	kind := "Image"
	if mime == "application/pdf" {
		content.Type, kind = tool.ContentDocument, "PDF document"
	}
	var artifacts []tool.Artifact
	if len(b) <= inlineMedia {
		content.Data = b
	} else {
		a, err := call.SaveArtifact("read."+mime[strings.IndexByte(mime, '/')+1:], mime, b)
		if err != nil {
			return nil, fmt.Errorf("save artifact: %w", err)
		}
		content.Artifact, data.Artifact = a.Name, a.Name
		artifacts = []tool.Artifact{a}
	}
	r := success(data, fmt.Sprintf("%s %s (%s, %d bytes).", kind, quote(p.path), mime, len(b)))
	r.Content, r.Artifacts = []tool.Content{content}, artifacts
	return remember(call, r, p.actual, data.SHA256), nil
}
