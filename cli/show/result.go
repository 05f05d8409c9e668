package show

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// ResultText returns the text of a result that the model reads. It is not escaped.
func ResultText(r *tooldv1.ToolResult) string {
	switch {
	case r.GetModelText() != "":
		return r.GetModelText()
	case r.GetMessage() != "":
		return r.GetMessage()
	case r.GetData() == "":
		return ""
	}
	if text, isText := textOf([]byte(r.GetData())); isText {
		return text
	}
	return r.GetData()
}

// BadExit describes how a program ended when it exited with an error. The call itself succeeded. BadExit returns "" for other results.
func BadExit(r *tooldv1.ToolResult) string {
	var program struct {
		ExitCode int    `json:"exit_code"`
		Signal   string `json:"signal"`
		Running  bool   `json:"running"`
	}
	switch {
	case r.GetError() != nil || json.Unmarshal([]byte(r.GetData()), &program) != nil || program.Running || program.ExitCode == 0:
		return ""
	case program.Signal != "":
		return "ended by " + Line(program.Signal)
	}
	return "exit code " + strconv.Itoa(program.ExitCode)
}

// textOf decodes raw if it is a JSON string.
func textOf(raw []byte) (string, bool) {
	var text string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", false
	}
	return text, true
}

// Result formats a result for the record of a call: error, text, content, artifacts and processes.
func (v View) Result(r *tooldv1.ToolResult) string {
	if r == nil {
		return ""
	}
	var b strings.Builder
	if e := r.GetError(); e != nil {
		b.WriteString(v.Error(e))
	}
	text := r.GetMessage()
	if text == "" && r.GetError() == nil {
		text = ResultText(r)
	}
	if text != "" && text != r.GetError().GetMessage() {
		b.WriteString(strings.TrimSuffix(fold(Text(text)), "\n") + "\n")
	}
	if data := r.GetData(); data != "" && data != text && r.GetMessage() != "" {
		b.WriteString(v.paint(dim, "data ") + v.announce(data) + "\n" + indent(prettyJSON(data)))
	}
	for _, c := range r.GetContent() {
		b.WriteString(v.content(c))
	}
	for _, a := range r.GetArtifacts() {
		b.WriteString(v.paint(dim, "artifact ") + Line(a.GetName()) + v.paint(dim, " ("+Number(a.GetSize())+" bytes"+commaLine(a.GetMimeType())+")") + "\n")
	}
	if r.GetTruncated() {
		b.WriteString(v.paint(dim, "The output was cut; artifacts contain all of it.") + "\n")
	}
	return b.String() + v.Processes(r.GetProcesses())
}

func commaLine(s string) string {
	if s == "" {
		return ""
	}
	return ", " + Line(s)
}

func prettyJSON(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return fold(Text(text))
	}
	return fold(JSON(b.String()))
}

// Error formats the error of a call.
func (v View) Error(e *tooldv1.ToolError) string {
	var b strings.Builder
	code := name(e.GetCode())
	if r := e.GetReason(); r != "" {
		code += " " + Line(r)
	}
	b.WriteString(v.paint(bad, code) + "  " + strings.TrimSuffix(fold(Text(e.GetMessage())), "\n") + "\n")
	for _, f := range e.GetFieldViolations() {
		field := f.GetField()
		if field == "" {
			field = "arguments"
		}
		b.WriteString("  " + v.paint(accent, Line(field)) + ": " + fold(Line(f.GetDescription())) + "\n")
	}
	if e.GetRetryable() {
		after := ""
		if d := e.GetRetryAfter(); d != nil {
			after = " after " + Duration(d.AsDuration())
		}
		b.WriteString(v.paint(dim, "The same call may succeed"+after+", under a new call id.") + "\n")
	}
	if e.GetTerminateRun() {
		b.WriteString(v.paint(waits, "The run is blocked until it is ended: "+v.command("runs", "end", "RUN")) + "\n")
	}
	if d := e.GetDeveloperMessage(); d != "" {
		b.WriteString(v.paint(dim, "for developers: "+fold(Line(d))) + "\n")
	}
	return b.String()
}

// Processes formats which processes were killed.
func (v View) Processes(p *tooldv1.ProcessReport) string {
	if p == nil {
		return ""
	}
	var ended, alive []string
	for _, k := range p.GetKilled() {
		if k.GetConfirmedAt() != nil {
			ended = append(ended, strconv.FormatInt(k.GetProcessId(), 10)+" at "+k.GetConfirmedAt().AsTime().UTC().Format("15:04:05.000"))
		} else {
			alive = append(alive, strconv.FormatInt(k.GetProcessId(), 10))
		}
	}
	var b strings.Builder
	if ended != nil {
		b.WriteString("killed, end confirmed: process " + strings.Join(ended, ", ") + "\n")
	}
	if alive != nil {
		b.WriteString(v.paint(bad, "killed, end not confirmed: process "+strings.Join(alive, ", ")) + "\n")
	}
	if p.GetKillUnverified() {
		b.WriteString(v.paint(bad, "Processes of the call may still run (kill_unverified).") + "\n")
	}
	return b.String()
}

// content formats one piece of rich output. For an unknown type it shows only the type.
func (v View) content(c *tooldv1.Content) string {
	label := strings.ToLower(name(c.GetType()))
	if label == "" {
		label = "content"
	}
	if n := c.GetName(); n != "" {
		label += " " + Line(n)
	}
	switch c.GetType() {
	case tooldv1.ContentType_CONTENT_TYPE_DIFF:
		return v.paint(bold, "Diff") + "\n" + indent(v.Diff(c.GetText()))
	case tooldv1.ContentType_CONTENT_TYPE_TEXT:
		return v.paint(bold, "Preview") + " " + v.longText("", c.GetText())
	case tooldv1.ContentType_CONTENT_TYPE_RESOURCE_LINK:
		return v.paint(dim, label+": ") + Line(c.GetUri()) + "\n"
	}
	where := Size(int64(len(c.GetData())))
	if a := c.GetArtifact(); a != "" {
		where = "artifact " + Line(a)
	}
	return v.paint(dim, label+commaLine(c.GetMimeType())+": "+where) + "\n"
}
