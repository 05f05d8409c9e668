package calllog

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

const maxName = 256

// CheckName returns an error for an unsafe name of an artifact or output stream: people could confuse it with another name, or it is a path
// outside the call's folder.
func CheckName(name string) error {
	strange := strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError })
	if strange || len(name) > maxName || strings.HasPrefix(name, "/") || strings.ContainsRune(name, '\\') || slices.Contains(strings.Split(name, "/"), "..") {
		return &tool.Error{Code: tool.ExecutionFailed, Reason: "ARTIFACT_NAME", Aborted: true,
			Message: fmt.Sprintf("The name %+.80q cannot be stored: use at most %d bytes of printable characters, without .., a backslash or a slash at the beginning", name, maxName)}
	}
	return nil
}

// The names under which the engine stores content that did not fit into a result.
const (
	dataArtifact    = "result.data"
	messageArtifact = "result.message"
)

// A Shortener limits the result of a call to its budget. It stores removed content in the spool of the call.
type Shortener struct {
	Output  *Output
	CallID  string
	Thread  string
	Budget  int                                                          // bytes of data and message together, and of the message of an error
	Compact func(tool, message string) (short, did string, changed bool) // shortens a message; nil disables this
}

// Shorten compacts the message if Compact is set. If the result then exceeds the budget, Shorten stores data and message in the spool. The
// result keeps the beginning, the end and the size of each text, and a handle to read all of it.
func (p *Shortener) Shorten(r *tool.Result) error {
	whole, note, err := p.compact(r)
	if err != nil {
		return err
	}
	message := r.Message
	if len(r.Data)+len(r.Message) > p.Budget {
		if err := p.cutData(r, p.Budget/2); err != nil {
			return err
		}
		if r.Message, err = p.cut(r, r.Message, p.Budget/2, whole); err != nil {
			return err
		}
	}
	switch e := r.Error; {
	case e == nil:
	case e.Message == message: // The same text is stored once.
		e.Message = r.Message
	case len(e.Message) > p.Budget:
		if e.Message, err = p.cut(r, e.Message, p.Budget/2, ""); err != nil {
			return err
		}
	}
	r.Message += note
	return nil
}

// compact compacts the message of a successful result. It returns the handle of the original message, and a note to append to the short
// message. It keeps the message when there is no space to store the original.
func (p *Shortener) compact(r *tool.Result) (whole, note string, err error) {
	if p.Compact == nil || r.Error != nil || r.Status == tool.StatusError {
		return "", "", nil //nolint:nilerr // errors stay as they are
	}
	short, did, ok := p.Compact(r.ToolName, r.Message)
	if !ok {
		return "", "", nil
	}
	if whole, err = p.keep(r, messageArtifact, textPlain, r.Message); whole == "" {
		return "", "", err
	}
	r.Message = short
	return whole, fmt.Sprintf("\n[Compacted: %s; the original text is %s]", did, whole), nil
}

const textPlain = "text/plain; charset=utf-8"

func (p *Shortener) cutData(r *tool.Result, most int) error {
	if len(r.Data) <= most {
		return nil
	}
	handle, err := p.keep(r, dataArtifact, "application/json", r.Data)
	if err != nil {
		return err
	}
	head, tail := ends(r.Data, most)
	short := map[string]any{"truncated": true, "size": len(r.Data), "head": head, "tail": tail}
	if handle != "" {
		short["artifact"] = handle
	}
	cut, err := json.Marshal(short)
	if err != nil {
		return err
	}
	r.Data = string(cut)
	return nil
}

// cut returns the beginning and the end of a message of r. whole is the handle of the full message if that is stored already, else empty.
func (p *Shortener) cut(r *tool.Result, message string, most int, whole string) (string, error) {
	if len(message) <= most {
		return message, nil
	}
	if whole == "" {
		var err error
		if whole, err = p.keep(r, messageArtifact, textPlain, message); err != nil {
			return "", err
		}
	}
	if whole != "" {
		whole = "; the full text is " + whole
	}
	head, tail := ends(message, most)
	return fmt.Sprintf("%s\n[… %d of %d bytes left out%s …]\n%s", head, len(message)-len(head)-len(tail), len(message), whole, tail), nil
}

// keep stores the full text of a shortened field and returns its handle, or "" when there is no space for it.
func (p *Shortener) keep(r *tool.Result, name, mimeType, text string) (string, error) {
	r.Truncated = true
	name, err := p.Output.Store(name, []byte(text), p.Thread)
	if full, is := errors.AsType[*store.QuotaError](err); is {
		p.Output.Cut(full)
		return "", nil
	}
	if err != nil {
		return "", err
	}
	r.Artifacts = append(r.Artifacts, tool.Artifact{Name: name, MIMEType: mimeType, Size: int64(len(text))})
	return tool.ArtifactHandle(p.CallID, name), nil
}

// ends returns the beginning and the end of a text, together at most size bytes, cut between characters.
func ends(text string, size int) (head, tail string) {
	h, t := size/2, len(text)-size/2
	for h > 0 && !utf8.RuneStart(text[h]) {
		h--
	}
	for t < len(text) && !utf8.RuneStart(text[t]) {
		t++
	}
	return text[:h], text[t:]
}
