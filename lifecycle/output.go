package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle/input"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// reporter is a running tool's way into the log of its call. What comes after the attempt is dropped and counted.
type reporter struct {
	p      *pipeline
	closed atomic.Bool

	// order keeps the pieces of one Output together. It is held over a write to this call's own spool and nothing else
	// waits for it.
	order sync.Mutex

	keys atomic.Pointer[input.Keyboard] // nil: the tool takes no input
}

func (r *reporter) close() {
	r.closed.Store(true)
	r.hangUp()
}

// hangUp ends what can be typed.
func (r *reporter) hangUp() {
	if k := r.keys.Load(); k != nil {
		k.Close()
	}
}

func (r *reporter) tell(ev call.Event) error {
	if r.closed.Load() {
		r.p.l.e.stats.late.Add(1)
		return errEnded
	}
	return r.p.l.emit(ev)
}

// maxReport bounds what one progress or activity event carries, in bytes.
const maxReport = 256 << 10

func (r *reporter) report(ev call.Event) error {
	if n := ev.Weight(); n > maxReport {
		return tool.Errorf(tool.InvalidArguments, "a report of %d bytes; at most %d are accepted", n, maxReport)
	}
	return r.tell(ev)
}

func (r *reporter) Progress(p tool.Progress) error {
	p.Status, p.Message = tool.ProgressStatus(readable(string(p.Status))), readable(p.Message)
	return r.report(call.Event{Type: call.EventProgress, Progress: &p})
}

func (r *reporter) Activity(id, activityType, content string) error {
	return r.report(call.Event{Type: call.EventActivitySnapshot, Activity: &call.Activity{ID: readable(id), Type: readable(activityType), Content: readable(content)}})
}

func (r *reporter) ActivityDelta(id, patch string) error {
	return r.report(call.Event{Type: call.EventActivityDelta, Activity: &call.Activity{ID: readable(id), Patch: readable(patch)}})
}

// outputPiece is the most that one output event carries, so that every frame has room for one.
const outputPiece = 64 << 10

func (r *reporter) Output(stream string, b []byte) error {
	if err := checkStoredName(stream); err != nil {
		return err
	}
	r.p.l.e.stats.outputBytes.Add(int64(len(b)))
	r.order.Lock()
	defer r.order.Unlock()
	for piece := range slices.Chunk(b, outputPiece) {
		// The tool may use its buffer again.
		err := r.tell(call.Event{Type: call.EventOutput, Output: &call.Output{Stream: stream, Bytes: slices.Clone(piece)}})
		if err != nil {
			return err
		}
	}
	return nil
}

// SaveCheckpoint returns when the checkpoint is in the journal.
func (r *reporter) SaveCheckpoint(b []byte) error {
	if r.closed.Load() {
		return errEnded
	}
	if err := checkCheckpoint(b); err != nil {
		return err
	}
	if err := r.p.l.takeCheckpoint(len(b)); err != nil {
		return err
	}
	kept := append([]byte(nil), b...)
	return r.p.l.commit(step{
		apply: func(c *call.Call) {
			if n := len(c.Attempts); n > 0 && !bytes.Equal(kept, c.Checkpoint) {
				c.Attempts[n-1].Saved = true
			}
			c.Checkpoint = kept
		},
		durability: store.Full,
	})
}

func (r *reporter) SaveArtifact(name, mimeType string, b []byte) (tool.Artifact, error) {
	if r.closed.Load() {
		return tool.Artifact{}, errEnded
	}
	if err := checkStoredName(name); err != nil {
		return tool.Artifact{}, err
	}
	if !r.p.scrub(func(s hook.Scrubber) { b = s.Artifact(mimeType, b) }) {
		b = []byte(notShown)
	}
	name, err := r.p.l.saveOwn(name, b)
	if err != nil {
		return tool.Artifact{}, err
	}
	return tool.Artifact{Name: name, MIMEType: mimeType, Size: int64(len(b))}, nil
}

const maxStoredName = 256

// checkStoredName refuses the name of an artifact or an output stream that a person could take for another one, or that a program
// could take for a path out of its folder.
func checkStoredName(name string) error {
	strange := strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) || c == utf8.RuneError })
	if strange || len(name) > maxStoredName || strings.HasPrefix(name, "/") || strings.ContainsRune(name, '\\') || slices.Contains(strings.Split(name, "/"), "..") {
		return &tool.Error{Code: tool.ExecutionFailed, Reason: "ARTIFACT_NAME", Aborted: true,
			Message: fmt.Sprintf("The name %+.80q cannot be stored: use at most %d bytes of printable characters, without .., a backslash or a slash at the beginning", name, maxStoredName)}
	}
	return nil
}

// The names under which the engine keeps what did not fit into a result.
const (
	dataArtifact    = "result.data"
	messageArtifact = "result.message"
)

// shorten makes a message compact, when that is wished, and keeps a result within the inline budget: what is over it goes to
// the call's spool whole, and the result keeps head, tail, size and the handle to read the rest by.
func (p *pipeline) shorten(r *tool.Result) error {
	budget := p.l.e.cfg.OutputBudget
	if p.def != nil {
		budget = or(p.def.Descriptor.OutputBudget, budget)
	}
	whole, note, err := p.compact(r)
	if err != nil {
		return err
	}
	if len(r.Data)+len(r.Message) > budget {
		if err := p.cutData(r, budget/2); err != nil {
			return err
		}
		if err := p.cutMessage(r, budget/2, whole); err != nil {
			return err
		}
	}
	r.Message += note
	return nil
}

// compact makes the message of an answer compact. It returns the handle of the message as it was and the note that goes behind
// what is left. Without room to keep the message nothing is taken out of it.
func (p *pipeline) compact(r *tool.Result) (whole, note string, err error) {
	if p.l.e.cfg.Compact == nil || r.Error != nil || r.Status == tool.StatusError {
		return "", "", nil //nolint:nilerr // errors stay as they are
	}
	short, did, ok := p.l.e.cfg.Compact(r.ToolName, r.Message)
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

func (p *pipeline) cutData(r *tool.Result, most int) error {
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
func (p *pipeline) cutMessage(r *tool.Result, most int, whole string) error {
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
func (p *pipeline) keep(r *tool.Result, name, mimeType, text string) (string, error) {
	r.Truncated = true
	name, err := p.l.output.Store(name, []byte(text), p.l.thread())
	if full, is := errors.AsType[*store.QuotaError](err); is {
		p.l.output.Cut(full)
		return "", nil
	}
	if err != nil {
		return "", err
	}
	r.Artifacts = append(r.Artifacts, tool.Artifact{Name: name, MIMEType: mimeType, Size: int64(len(text))})
	return tool.ArtifactHandle(p.l.key.ID, name), nil
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
