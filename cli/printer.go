package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// The forms of --output.
const (
	FormTable = "table"
	FormJSON  = "json"
	FormJSONL = "jsonl"
)

// A printer shows the frames of a stream, depending on --output:
//   - table: progress on standard error, the output streams of calls on standard output.
//   - jsonl: each frame as one line on standard output.
//   - json: only progress, on standard error.
type printer struct {
	a      *App
	client *client
	screen *screen
	many   bool // several calls are shown, so each line names its call

	escapers map[string]*show.Escaper // key: call id and stream
	lines    map[string]string        // key: call id and stream; incomplete lines, used with many
	streamed map[string]string        // key: stream; the start of what went to standard output

	// The last known state, when only one call is shown.
	callID   string
	status   tooldv1.CallStatus
	result   *tooldv1.ToolResult
	caughtUp bool

	batchFinished bool
}

func (a *App) newPrinter(c *client, many bool) *printer {
	return &printer{
		a: a, client: c, screen: a.newScreen(), many: many,
		escapers: map[string]*show.Escaper{}, lines: map[string]string{}, streamed: map[string]string{},
	}
}

func (p *printer) take(ctx context.Context, f *tooldv1.Frame) error {
	if p.a.Output == FormJSONL {
		text, err := show.Message(f, false)
		if err == nil {
			err = p.screen.data(text, false)
		}
		if err != nil {
			return err
		}
	} else {
		p.screen.say(p.screen.view().Control(f))
	}
	if c := f.GetSnapshot(); c != nil {
		p.callID, p.status, p.result = c.GetCallId(), c.GetStatus(), c.GetResult()
	}
	if f.GetCaughtUp() != nil {
		p.caughtUp = true
	}
	p.batchFinished = p.batchFinished || f.GetBatchFinished() != nil
	for _, e := range f.GetEvents() {
		if err := p.event(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) event(ctx context.Context, e *tooldv1.CallEvent) error {
	p.note(e)
	if p.a.Output == FormJSONL {
		return nil
	}
	if o := e.GetOutput(); o != nil {
		return p.chunk(ctx, e.GetCallId(), o)
	}
	text := p.screen.view().Event(e)
	if p.many && text != "" {
		text = prefixed(e.GetCallId(), text)
	}
	p.screen.say(text)
	return nil
}

// note records the state that determines the exit code, and updates the spinner.
func (p *printer) note(e *tooldv1.CallEvent) {
	p.callID = e.GetCallId()
	spinner := "running"
	switch {
	case e.GetFinished() != nil:
		p.status, p.result = e.GetFinished().GetStatus(), e.GetFinished().GetResult()
		spinner = ""
	case e.GetSuspended() != nil, e.GetVoteRecorded() != nil:
		p.status, spinner = tooldv1.CallStatus_CALL_STATUS_SUSPENDED, "waiting for a decision"
	case e.GetResumed() != nil:
		p.status = tooldv1.CallStatus_CALL_STATUS_RESUMING
	case e.GetAttemptStarted() != nil:
		p.status = tooldv1.CallStatus_CALL_STATUS_RUNNING
	case e.GetStatusChanged() != nil:
		p.status = e.GetStatusChanged().GetStatus()
	case e.GetQueued() != nil:
		spinner = show.Waits(e.GetQueued())
	case e.GetProgress() != nil:
		spinner = "running  " + show.Progress(e.GetProgress())
	}
	if p.many {
		spinner = "watching"
	}
	p.screen.wait(spinner)
}

// chunk shows a piece of output. Events from the journal carry no bytes, so chunk fetches them.
func (p *printer) chunk(ctx context.Context, id string, o *tooldv1.Output) error {
	if len(o.GetData()) > 0 || o.GetLength() == 0 {
		return p.bytes(id, o.GetStream(), o.GetData())
	}
	return readArtifact(ctx, p.client, id, o.GetStream(), o.GetOffset(), o.GetLength(), func(b []byte) error {
		return p.bytes(id, o.GetStream(), b)
	})
}

func (p *printer) bytes(id, stream string, b []byte) error {
	text := string(b)
	toOut, terminal := p.route(stream)
	if begin := p.streamed[stream]; toOut && len(begin) < streamBegin {
		p.streamed[stream] = begin + text[:min(len(text), streamBegin-len(begin))]
	}
	if terminal || p.many {
		text = p.escaper(id, stream).Escape(b)
	}
	return p.show(id, stream, text)
}

// streamBegin is how many bytes of each stream are kept, to recognise the stream in the result.
const streamBegin = 1 << 10

// route says whether a stream goes to standard output or standard error, and whether that is a terminal. stderr always goes to standard
// error. Other streams go to standard output only with --output table.
func (p *printer) route(stream string) (toOut, terminal bool) {
	if stream != "stderr" && p.a.Output == FormTable {
		return true, p.a.OutTerminal
	}
	return false, p.a.ErrTerminal
}

func (p *printer) show(id, stream, text string) error {
	toOut, terminal := p.route(stream)
	if p.many {
		text = p.whole(id, stream, text)
	}
	if !toOut {
		p.screen.say(text)
		return nil
	}
	return p.screen.data(text, terminal)
}

func (p *printer) escaper(id, stream string) *show.Escaper {
	key := id + "/" + stream
	if p.escapers[key] == nil {
		p.escapers[key] = &show.Escaper{}
	}
	return p.escapers[key]
}

const longestLine = 64 << 10 // bytes buffered while waiting for the end of a line

// whole holds back incomplete lines, because lines of several calls would mix.
func (p *printer) whole(id, stream, text string) string {
	key := id + "/" + stream
	text = p.lines[key] + text
	end := strings.LastIndexByte(text, '\n') + 1
	if end == 0 && len(text) > longestLine {
		end = len(text)
	}
	p.lines[key] = text[end:]
	if end == 0 {
		return ""
	}
	return prefixed(id, strings.TrimSuffix(text[:end], "\n")+"\n")
}

// prefixed puts the end of the call id before each line. UUIDs made at the same time share their beginning, so only the end distinguishes
// them.
func prefixed(id, text string) string {
	mark := "…" + show.Line(id[max(0, len(id)-6):]) + " "
	return mark + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+mark) + "\n"
}

// close stops the spinner and prints the text that was held back.
func (p *printer) close() {
	for key, e := range p.escapers {
		if rest := e.Flush(); rest != "" {
			id, stream, _ := strings.Cut(key, "/")
			_ = p.show(id, stream, rest)
		}
	}
	for key, rest := range p.lines {
		if rest != "" {
			id, _, _ := strings.Cut(key, "/")
			_ = p.screen.data(prefixed(id, rest), false)
		}
	}
	p.screen.close()
}

// finish prints the result of a finished call in the form that --output selects, and returns its exit code.
func (p *printer) finish(ctx context.Context) error {
	p.screen.wait("")
	switch p.a.Output {
	case FormJSON:
		if p.callID == "" {
			return codedError{fmt.Errorf("the daemon sent nothing about the call"), ExitFailed}
		}
		got, err := p.client.calls.GetCall(ctx, &tooldv1.GetCallRequest{CallId: p.callID})
		if err != nil {
			return err
		}
		text, err := show.Message(got.GetCall(), true)
		if err == nil {
			err = p.screen.data(text, false)
		}
		if err != nil {
			return err
		}
		return endOf(got.GetCall().GetStatus())
	case FormTable:
		if err := p.resultText(); err != nil {
			return err
		}
	}
	return endOf(p.status)
}

// resultText writes the text of the result to standard output. If the same text was already streamed there, it does not write it again, and
// the rest of the result goes to standard error.
func (p *printer) resultText() error {
	if p.result == nil || p.result.GetError() != nil {
		return nil // already printed
	}
	if len(p.streamed) > 0 {
		p.screen.say(unseen(p.result, p.streamed) + restOf(p.result, p.streamed))
		return nil
	}
	text := show.ResultText(p.result)
	if p.a.OutTerminal {
		text = show.Text(text)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for _, a := range p.result.GetArtifacts() {
		p.screen.say(fmt.Sprintf("artifact   %s, %s: %s artifact %s %s\n", show.Line(a.GetName()), show.Size(a.GetSize()), p.a.Program(), show.Line(p.callID), show.Line(a.GetName())))
	}
	return p.screen.data(text, p.a.OutTerminal)
}

// unseen returns the text of the result, or "" when that repeats what was streamed. The text is a repetition when the data has a member
// with the name of a stream, or when the text begins like the stream.
func unseen(r *tooldv1.ToolResult, streamed map[string]string) string {
	text := show.ResultText(r)
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(r.GetData()), &members) == nil && r.GetMessage() == "" {
		return "" // restOf shows the members
	}
	for stream, begin := range streamed {
		begin = strings.TrimSpace(strings.ToValidUTF8(begin, "\uFFFD"))
		begin = begin[:min(len(begin), streamBegin/2)] // Keep away from the end of the kept bytes, where a character may be cut.
		if members[stream] != nil || begin != "" && strings.HasPrefix(strings.TrimSpace(text), begin) {
			return ""
		}
	}
	text = strings.TrimSuffix(show.Text(text), "\n")
	if text == "" {
		return ""
	}
	return "result     " + strings.ReplaceAll(text, "\n", "\n           ") + "\n"
}

// restOf lists the simple members of a result's data, such as exit_code=3, except the streams themselves.
func restOf(r *tooldv1.ToolResult, streamed map[string]string) string {
	d := json.NewDecoder(strings.NewReader(r.GetData()))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	var parts []string
	for d.More() {
		key, err := d.Token()
		var value any
		if err != nil || d.Decode(&value) != nil {
			return ""
		}
		member := fmt.Sprint(key)
		switch value := value.(type) {
		case json.Number:
			parts = append(parts, fmt.Sprintf("%s=%s", show.Line(member), show.Line(value.String())))
		case bool:
			if value { // a false flag is not worth showing
				parts = append(parts, show.Line(member))
			}
		case string:
			if _, seen := streamed[member]; !seen && member != "stderr" && value != "" && len(value) <= 60 {
				parts = append(parts, fmt.Sprintf("%s=%s", show.Line(member), show.Line(value)))
			}
		}
	}
	if parts == nil {
		return ""
	}
	return "           " + strings.Join(parts, " ") + "\n"
}
