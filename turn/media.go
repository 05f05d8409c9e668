package turn

import (
	"encoding/base64"
	"fmt"
	"path"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// A medium is an image or a document in an answer.
type medium struct {
	mime, name string
	data       []byte
}

func (m medium) base64() string { return base64.StdEncoding.EncodeToString(m.data) }

func (m medium) image() bool { return isImage(m.mime) }

const pdf = "application/pdf"

// magic maps each media type that providers accept to the first bytes of such a file. Data must begin with these bytes, because a provider
// refuses the whole history when one image in it is not valid.
var magic = map[string]string{
	"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff", "image/gif": "GIF8", "image/webp": "RIFF", pdf: "%PDF-",
}

func isImage(mime string) bool { return magic[mime] != "" && mime != pdf }

func genuine(mime string, data []byte) bool {
	return magic[mime] != "" && strings.HasPrefix(string(data), magic[mime])
}

// fileName returns a plain file name for a document. For an image it returns "".
func (m medium) fileName() string {
	if m.image() {
		return ""
	}
	return m.name
}

// maxNotes is the maximum number of media of a result that its text names.
const maxNotes = 20

// A Need is an artifact whose bytes an answer needs.
type Need struct {
	Answer   int // index of the answer
	Artifact string
}

// Needs lists the artifacts to put into [Answer.Media]: images and documents that the provider takes and that fit in the budget.
func (t *Turn) Needs(answers []Answer, o Options) ([]Need, error) {
	f, err := t.check(answers)
	if err != nil {
		return nil, err
	}
	var needs []Need
	for i, chosen := range choose(f, answers, o.withDefaults().MediaPerTurn) {
		for k, ok := range chosen {
			if name := answers[i].Result.Content[k].Artifact; ok && name != "" {
				needs = append(needs, Need{i, name})
			}
		}
	}
	return needs, nil
}

// choose returns which contents of each answer are sent as media. The choice depends only on the results. It does not depend on which
// artifacts are loaded.
func choose(f format, answers []Answer, budget int) [][]bool {
	chosen := make([][]bool, len(answers))
	for i := range answers {
		r := answers[i].Result
		if r == nil {
			continue
		}
		chosen[i] = make([]bool, len(r.Content))
		for k := range r.Content {
			size, known := sizeOf(r, &r.Content[k])
			if known && isMedium(&r.Content[k]) && f.takes(r.Content[k].MIMEType) && size <= int64(budget) {
				chosen[i][k] = true
				budget -= int(size)
			}
		}
	}
	return chosen
}

func isMedium(c *tool.Content) bool {
	return c.Type == tool.ContentImage || c.Type == tool.ContentAudio || c.Type == tool.ContentDocument
}

// sizeOf returns the size of a content and whether it is known.
func sizeOf(r *tool.Result, c *tool.Content) (int64, bool) {
	if c.Artifact == "" {
		return int64(len(c.Data)), len(c.Data) > 0
	}
	for _, a := range r.Artifacts {
		if a.Name == c.Artifact {
			return a.Size, a.Size > 0
		}
	}
	return 0, false
}

// attach adds the chosen media to the outcome. It returns lines of text that name the media that it did not add.
func (o *outcome) attach(a *Answer, chosen []bool) string {
	var lines strings.Builder
	notes := 0
	for k := range chosen {
		c := &a.Result.Content[k]
		if !isMedium(c) {
			continue
		}
		data := c.Data
		if c.Artifact != "" {
			data = a.Media[c.Artifact]
		}
		if size, _ := sizeOf(a.Result, c); chosen[k] && int64(len(data)) == size && genuine(c.MIMEType, data) {
			o.media = append(o.media, medium{c.MIMEType, documentName(c), data})
			continue
		}
		if note := a.note(c); note != "" {
			if notes++; notes <= maxNotes {
				lines.WriteString("\n" + note)
			}
		}
	}
	if notes > maxNotes {
		fmt.Fprintf(&lines, "\n[and %d more]", notes-maxNotes)
	}
	return lines.String()
}

// note returns a text that names a content that is not sent as media. For inline text it returns "", because the message already contains
// that text.
func (a *Answer) note(c *tool.Content) string {
	size, known := sizeOf(a.Result, c)
	what := string(c.Type)
	if isPlain(c.MIMEType) {
		what += " " + c.MIMEType
	}
	if known {
		what += fmt.Sprintf(", %d bytes", size)
	}
	handle := a.handle(c.Artifact)
	switch {
	case c.Artifact != "" && handle != "":
		return "[" + what + ": " + handle + "]"
	case strings.HasPrefix(c.MIMEType, "text/"):
		return ""
	}
	return "[" + what + ", not shown]"
}

// isPlain reports whether a text for the model may quote a media type that a tool chose.
func isPlain(mime string) bool {
	for i := range len(mime) {
		if c := mime[i]; c <= ' ' || c > '~' || c == '[' || c == ']' {
			return false
		}
	}
	return mime != "" && len(mime) <= 100
}

// documentName returns a file name for a document. Providers expect a name with an extension.
func documentName(c *tool.Content) string {
	name := path.Base(strings.ReplaceAll(strings.ToValidUTF8(c.Name, ""), "\\", "/"))
	if !isPlain(name) || !strings.HasSuffix(name, ".pdf") {
		return "document.pdf"
	}
	return name
}
