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

// A printer shows the frames of what is watched. As a table: progress on standard error, output streams on standard
// output. As jsonl: each frame on a line of standard output. As json: progress only.
type printer struct {
	a      *App
	client *client
	screen *screen
	many   bool // calls of a batch, run, thread or namespace: lines say whose they are

	escapers map[string]*show.Escaper // by call and stream
	lines    map[string]string        // by call and stream: with many, what has no end of line yet
	streamed map[string]string        // by stream: the beginning of what went to standard output of it

	// What became of the call, when it is one.
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

// take shows one frame.
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

// note keeps what the end of the command depends on, and updates the spinner.
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
		spinner = "waiting for a place"
	case e.GetProgress() != nil:
		spinner = "running  " + show.Progress(e.GetProgress())
	}
	if p.many {
		spinner = "watching"
	}
	p.screen.wait(spinner)
}

// chunk shows a piece of output. What comes from the journal has no bytes; they are fetched.
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
	toOut, terminal := p.place(stream)
	if begin := p.streamed[stream]; toOut && len(begin) < streamBegin {
		p.streamed[stream] = begin + text[:min(len(text), streamBegin-len(begin))]
	}
	if terminal || p.many {
		text = p.escaper(id, stream).Escape(b)
	}
	return p.show(id, stream, text)
}

// streamBegin is how much is kept of a stream, to find it again in the result, in bytes.
const streamBegin = 1 << 10

// place says where a stream goes. What is called stderr is nobody's data, and with --output json no stream is.
func (p *printer) place(stream string) (toOut, terminal bool) {
	if stream != "stderr" && p.a.Output == FormTable {
		return true, p.a.OutTerminal
	}
	return false, p.a.ErrTerminal
}

func (p *printer) show(id, stream, text string) error {
	toOut, terminal := p.place(stream)
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

const longestLine = 64 << 10 // bytes, that are kept for the end of a line

// whole keeps the beginnings of lines back, because lines of several calls would mix.
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

// prefixed puts the end of the call's id before each line: the beginnings of ids of the same time are alike.
func prefixed(id, text string) string {
	mark := "…" + show.Line(id[max(0, len(id)-6):]) + " "
	return mark + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+mark) + "\n"
}

// close ends the spinner and shows what is held back.
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

// finish shows the result of a call that is over, in the form that was asked for, and returns its exit code.
func (p *printer) finish(ctx context.Context) error {
	p.screen.wait("")
	switch p.a.Output {
	case FormJSON:
		if p.callID == "" {
			return codedError{fmt.Errorf("the daemon told nothing of the call"), ExitFailed}
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

// resultText writes the result to standard output. A result whose output was streamed there is not written again: what
// else it says goes to standard error.
func (p *printer) resultText() error {
	if p.result == nil || p.result.GetError() != nil {
		return nil // it has been said
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

// unseen is the text of a result, unless it is what was streamed: then its data has a member of a stream's name, or it
// begins as the stream did.
func unseen(r *tooldv1.ToolResult, streamed map[string]string) string {
	text := show.ResultText(r)
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(r.GetData()), &members) == nil && r.GetMessage() == "" {
		return "" // restOf names them
	}
	for stream, begin := range streamed {
		begin = strings.TrimSpace(strings.ToValidUTF8(begin, "\uFFFD"))
		begin = begin[:min(len(begin), streamBegin/2)] // before a character that streamBegin cut
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

// restOf names the simple members of a result's data that are not the streams themselves: exit_code=3.
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
			if value { // a flag that is not set says nothing new
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
