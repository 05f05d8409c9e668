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

// CheckName refuses the name of an artifact or an output stream that a person could take for another one, or that a program
// could take for a path out of its folder.
func CheckName(name string) error {
	strange := strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError })
	if strange || len(name) > maxName || strings.HasPrefix(name, "/") || strings.ContainsRune(name, '\\') || slices.Contains(strings.Split(name, "/"), "..") {
		return &tool.Error{Code: tool.ExecutionFailed, Reason: "ARTIFACT_NAME", Aborted: true,
			Message: fmt.Sprintf("The name %+.80q cannot be stored: use at most %d bytes of printable characters, without .., a backslash or a slash at the beginning", name, maxName)}
	}
	return nil
}

// The names under which the engine keeps what did not fit into a result.
const (
	dataArtifact    = "result.data"
	messageArtifact = "result.message"
)

// A Shortener keeps the result of a call within its budget. It keeps what it cuts in the spool of the call.
type Shortener struct {
	Output  *Output
	CallID  string
	Thread  string
	Budget  int                                                          // bytes of data and message
	Compact func(tool, message string) (short, did string, changed bool) // makes a message shorter; nil does not
}

// Shorten makes a message compact, when that is wished. A result that is over the budget goes to the spool whole, and keeps head,
// tail, size and the handle to read the rest by.
func (p *Shortener) Shorten(r *tool.Result) error {
	whole, note, err := p.compact(r)
	if err != nil {
		return err
	}
	if len(r.Data)+len(r.Message) > p.Budget {
		if err := p.cutData(r, p.Budget/2); err != nil {
			return err
		}
		if err := p.cutMessage(r, p.Budget/2, whole); err != nil {
			return err
		}
	}
	r.Message += note
	return nil
}

// compact makes the message of an answer compact. It returns the handle of the message as it was and the note that goes behind
// what is left. Without room to keep the message nothing is taken out of it.
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
	return whole, fmt.Sprintf("\n[Compacted: %s; the text as it was is %s]", did, whole), nil
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

// cutMessage leaves head and tail of a message; whole is the handle when it is kept already.
func (p *Shortener) cutMessage(r *tool.Result, most int, whole string) error {
	if len(r.Message) <= most {
		return nil
	}
	if whole == "" {
		var err error
		if whole, err = p.keep(r, messageArtifact, textPlain, r.Message); err != nil {
			return err
		}
	}
	if whole != "" {
		whole = "; the whole is " + whole
	}
	head, tail := ends(r.Message, most)
	r.Message = fmt.Sprintf("%s\n[… %d of %d bytes left out%s …]\n%s", head, len(r.Message)-len(head)-len(tail), len(r.Message), whole, tail)
	return nil
}

// keep saves what a result cuts and returns the handle to read it by; "" when there is no room for it.
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

// ends returns the first and the last part of a text, together at most size bytes, cut between characters.
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
