package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
)

// An output processes what a program prints for one call. Standard output and standard error may be written concurrently, each by one
// goroutine.
type output struct {
	t    *scripted
	call *tool.Call
	memo *memo
	done func() // called after the last line

	kept  bytes.Buffer // standard output, when the manifest's format is text or JSON
	total int64
	split splitter
	last  *line
	words []byte // the last bytes of standard error; until the program has ended, only the writer of standard error may use this field
}

const (
	maxWords  = 4 << 10 // maximum size of the standard error in a result, in bytes
	textShare = 2       // The text may use 1/textShare of the output budget, because the result contains it twice: in data and in message.
)

func newOutput(t *scripted, c *tool.Call, m *memo) *output {
	return &output{t: t, call: c, memo: m, done: func() {}, split: splitter{most: t.m.Run.Limits.Output}}
}

// A protocolError means that the output of a program violates the format in its manifest.
type protocolError struct{ reason, text string }

func (e *protocolError) Error() string { return e.text }

func (e *protocolError) result() *tool.Result {
	return tool.FailCode(e.reason, "The program %s", e.text)
}

// write is the Output function of [sandbox.Spec].
func (o *output) write(stream string, chunk []byte) error {
	if stream != "stdout" {
		o.words = append(o.words, chunk...)
		o.words = o.words[max(0, len(o.words)-maxWords):]
		return o.call.Output(stream, chunk)
	}
	switch o.t.m.Run.Output {
	case outputLines:
		return o.split.write(chunk, o.line)
	case outputJSON:
		if o.total += int64(len(chunk)); o.total > int64(o.t.m.Run.Limits.Output) {
			return &protocolError{"OUTPUT_TOO_LONG", fmt.Sprintf("printed more than the %d bytes of JSON that its manifest allows", o.t.m.Run.Limits.Output)}
		}
		o.kept.Write(chunk)
		return nil
	}
	o.keepText(chunk)
	return o.call.Output(stream, chunk)
}

// keepText keeps the beginning and the end of a text.
func (o *output) keepText(chunk []byte) {
	o.total += int64(len(chunk))
	o.kept.Write(chunk)
	if most := o.budget(); o.kept.Len() > 4*most {
		b := o.kept.Bytes()
		o.kept.Truncate(most + copy(b[most:], slices.Clone(b[len(b)-most:])))
	}
}

func (o *output) budget() int { return max(1<<10, cmp.Or(o.t.m.OutputBudget, 48<<10)/textShare) }

// text returns the kept standard output. When the output is too long, text contains only the beginning and the end, and cut contains the
// artifact with the whole output.
func (o *output) text() (text string, cut []tool.Artifact) {
	b, most := o.kept.Bytes(), o.budget()
	if o.total <= int64(most) {
		return strings.ToValidUTF8(string(b), "\uFFFD"), nil
	}
	head, tail := b[:most/2], b[len(b)-most/2:]
	return fmt.Sprintf("%s\n[… %d bytes left out; the full text is %s …]\n%s", strings.ToValidUTF8(string(head), ""), o.total-int64(len(head)+len(tail)),
		tool.ArtifactHandle(o.call.ID, "stdout"), strings.ToValidUTF8(string(tail), "")), []tool.Artifact{{Name: "stdout", MIMEType: "text/plain", Size: o.total}}
}

type splitter struct {
	most    int // size limit of a line, in bytes
	partial []byte
	number  int // number of the current line
}

// write invokes take for each line that chunk completes.
func (s *splitter) write(chunk []byte, take func([]byte) error) error {
	for {
		text, rest, whole := bytes.Cut(chunk, []byte{'\n'})
		if len(s.partial)+len(text) > s.most {
			return &protocolError{"OUTPUT_TOO_LONG", fmt.Sprintf("printed a line of more than the %d bytes that its manifest allows", s.most)}
		}
		s.partial = append(s.partial, text...)
		if !whole {
			return nil
		}
		if err := s.flush(take); err != nil {
			return err
		}
		chunk = rest
	}
}

// flush passes the unfinished line to take.
func (s *splitter) flush(take func([]byte) error) error {
	text := s.partial
	s.partial = nil
	s.number++
	return take(bytes.TrimSpace(text))
}

// parse parses a line and adds the line number to the error.
func (s *splitter) parse(text []byte) (*line, error) {
	l, err := parseLine(text)
	if err != nil {
		return nil, &protocolError{"BAD_LINE", fmt.Sprintf("printed an invalid line: line %d %v", s.number, err)}
	}
	return l, nil
}

// line processes one line. A line that does not begin with { is not an error: line publishes it as output, because many programs print some
// text.
func (o *output) line(text []byte) error {
	switch {
	case o.last != nil || len(text) == 0: // Empty lines, and lines after the one that ended the call, are ignored.
		return nil
	case text[0] != '{':
		return o.call.Output("stdout", append(bytes.Clone(text), '\n'))
	}
	l, err := o.split.parse(text)
	if err != nil {
		return err
	}
	return o.take(l)
}

// take publishes what a line contains. It keeps a line that ends the call for result.
func (o *output) take(l *line) error {
	c := o.call
	switch {
	case l.Progress != nil:
		return c.ReportProgress(*l.Progress)
	case l.Activity != nil:
		return c.Activity(l.Activity.ID, l.Activity.Type, l.Activity.Content)
	case l.Delta != nil:
		return c.ActivityDelta(l.Delta.ID, l.Delta.Patch)
	case l.Output != nil:
		return c.Output(cmp.Or(l.Output.Stream, "stdout"), []byte(l.Output.Text))
	case l.Checkpoint != nil:
		o.memo.Checkpoint = l.Checkpoint
		return o.memo.save(c)
	case l.Suspend != nil: // The memo with the question is saved before a person can see the question.
		o.memo.Asked = cmp.Or(l.Suspend.Action, "tool:"+c.Tool)
		if err := o.memo.save(c); err != nil {
			return err
		}
	}
	o.last = l
	o.done()
	return nil
}

// result returns the result of a program that has ended.
func (o *output) result(exit *sandbox.Exit, killed bool) *tool.Result {
	if o.t.m.Run.Output == outputLines {
		if len(o.split.partial) > 0 && o.last == nil { // The last line has no line end, so it has not been processed yet.
			if err := o.split.flush(o.line); err != nil {
				if bad, ok := errors.AsType[*protocolError](err); ok {
					return bad.result()
				}
				return tool.Fail("%v", err)
			}
		}
		if o.last != nil && o.last.Error != nil {
			return o.last.result()
		}
	}
	if exit.OOMKills > 0 || !killed && (exit.Signal != "" || !slices.Contains(o.t.m.Run.ExitCodes, exit.Code)) {
		return o.failed(exit)
	}
	switch o.t.m.Run.Output {
	case outputLines:
		if o.last == nil {
			return tool.FailCode("NO_RESULT", "The program ended without a result.%s", o.lastWords())
		}
		return o.last.result()
	case outputJSON:
		text := bytes.TrimSpace(o.kept.Bytes())
		if !utf8.Valid(text) || !json.Valid(text) {
			return tool.FailCode("BAD_JSON", "The program's output is not valid JSON.%s", o.lastWords())
		}
		return &tool.Result{Status: tool.StatusSuccess, Data: string(text)}
	}
	text, cut := o.text()
	r := tool.Text(text)
	if text == "" {
		r.Message = "(no output)"
	}
	if exit.Code != 0 {
		r.Message += fmt.Sprintf("\nExit code %d", exit.Code)
	}
	r.Artifacts, r.Truncated = cut, len(cut) > 0
	return r
}

// failed returns the result of a program whose exit shows a failure.
func (o *output) failed(exit *sandbox.Exit) *tool.Result {
	reason, how := "EXIT_CODE", fmt.Sprintf("The program ended with exit code %d.", exit.Code)
	if exit.Signal != "" {
		how = "The program was stopped by signal " + exit.Signal + "."
	}
	if why := exit.OutOfMemory(); why != "" {
		reason, how = sandbox.ReasonOOM, "The program ran out of memory. "+why+" "+how
	}
	detail := o.lastWords()
	if o.t.m.Run.Output == outputText {
		if text, _ := o.text(); text != "" {
			detail = "\n" + strings.TrimRight(text, "\n") + detail
		}
	}
	return tool.FailCode(reason, "%s%s", how, detail)
}

// lastWords returns the end of standard error as text.
func (o *output) lastWords() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(o.words), ""))
	if text == "" {
		return ""
	}
	return "\n" + text
}

// result returns the result that is described by the line that ended the call.
func (l *line) result() *tool.Result {
	switch {
	case l.Suspend != nil:
		ticket, err := l.Suspend.ticket()
		if err != nil {
			return tool.Fail("%v", err) // This cannot happen, because parseLine has checked the question.
		}
		return tool.SuspendedWith(*ticket)
	case l.Error != nil:
		r := tool.FailCode(l.Error.Reason, "%s", l.Error.Message)
		r.Error.Retryable, r.Data = l.Error.Retryable, string(l.Error.Data)
		return r
	}
	r := &tool.Result{Status: tool.StatusSuccess, Data: string(l.Result), Message: l.Message, Display: l.Display, Metadata: l.Metadata}
	var text string
	if r.Message == "" && json.Unmarshal(l.Result, &text) == nil && text != "" {
		r.Message = text // The data is a JSON string, so the model reads the string itself, without quotes and escapes.
	}
	r.Content = l.Content
	if len(r.Content) > maxContents {
		r.Content = r.Content[:maxContents]
	}
	return r
}
