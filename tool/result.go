package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// ResultStatus is the outcome that a tool reports.
type ResultStatus string

// The statuses. The zero status is invalid, so that a tool cannot report success by mistake.
const (
	StatusSuccess ResultStatus = "SUCCESS"
	StatusPending ResultStatus = "PENDING" // suspended, or an operation continues elsewhere
	StatusError   ResultStatus = "ERROR"
)

// A Result is the answer of a tool. Each call has exactly one final Result. Its JSON form has all fields; docs/reference/results.md lists
// the keys.
type Result struct {
	ToolName string       `json:"tool_name,omitempty"` // set by the engine
	Status   ResultStatus `json:"status"`
	// Data is JSON text for programs.
	Data string `json:"data,omitempty"`
	// Message is the text for the model. When it is empty, the model reads Data.
	Message    string    `json:"message,omitempty"`
	Content    []Content `json:"content,omitempty"`
	Suspension *Ticket   `json:"suspension,omitempty"` // used with StatusPending; nil means the default ticket
	Error      *Error    `json:"error,omitempty"`

	Display   Display           `json:"display_preference,omitempty"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Artifacts []Artifact        `json:"artifacts,omitempty"`
	Truncated bool              `json:"truncated,omitempty"` // set by the engine when output was cut
	Duration  time.Duration     `json:"duration,omitempty"`  // set by the engine

	// Operation is set, with StatusPending, when the work continues elsewhere.
	Operation *Operation `json:"operation,omitempty"`
	// Documents are commands that commit with the call. They are dropped when the tool returns an error.
	Documents []Command `json:"documents,omitempty"`
	// Actions are stored with the call and carried out after it. They are dropped when the tool returns an error.
	Actions []Action `json:"actions,omitempty"`
	// Process says how the processes of this call ended. It is for the record, not for the model.
	Process *ProcessReport `json:"process,omitempty"`
}

// Display is how a frontend should show a result.
type Display string

// The display preferences; empty means DisplayDefault.
const (
	DisplayDefault   Display = "DEFAULT"
	DisplayCollapsed Display = "COLLAPSED"
	DisplayCode      Display = "CODE"
	DisplayMarkdown  Display = "MARKDOWN"
	DisplayDiff      Display = "DIFF"
	DisplayHidden    Display = "HIDDEN"
)

// A Content is one part of a rich result. Only the fields for its type are set.
type Content struct {
	Type     ContentType `json:"type"`
	Text     string      `json:"text,omitempty"`      // used by the types text and diff; a diff is in unified format
	MIMEType string      `json:"mime_type,omitempty"` // used by the types image, audio, document and ui
	Data     []byte      `json:"data,omitempty"`      // inline bytes, at most 64 KiB
	URI      string      `json:"uri,omitempty"`       // for resource links
	Artifact string      `json:"artifact,omitempty"`  // name of an artifact of this call that contains the bytes; used instead of Data
	Name     string      `json:"name,omitempty"`
}

// ContentType is the type of a [Content].
type ContentType string

// The content types of the API.
const (
	ContentText     ContentType = "text"
	ContentImage    ContentType = "image"
	ContentAudio    ContentType = "audio"
	ContentDocument ContentType = "document"
	ContentDiff     ContentType = "diff"
	ContentLink     ContentType = "resource_link"
	ContentUI       ContentType = "ui"
)

// An Artifact describes stored output of a call. Clients read its content in ranges with ReadArtifact.
type Artifact struct {
	Name     string `json:"name"` // unique in the call; for the stored output of a stream, the name of the stream
	MIMEType string `json:"mime_type,omitempty"`
	Size     int64  `json:"size"` // bytes
}

// A ProcessReport describes how the processes of a call ended.
type ProcessReport struct {
	Killed         []int     `json:"killed,omitempty"` // process ids
	ConfirmedAt    time.Time `json:"confirmed_at,omitzero"`
	KillUnverified []int     `json:"kill_unverified,omitempty"` // ids of processes whose death could not be confirmed
}

// Success returns a success whose data is v as JSON. It panics when v has no JSON form, because that is a bug of the tool.
func Success(v any) *Result {
	return &Result{Status: StatusSuccess, Data: mustJSON(v)}
}

// SuccessMessage returns a success with data v, and a text that the model reads instead of the data.
func SuccessMessage(v any, format string, args ...any) *Result {
	r := Success(v)
	r.Message = fmt.Sprintf(format, args...)
	return r
}

// Text returns a success whose data is the text as a JSON string and whose message is the text.
func Text(text string) *Result {
	return &Result{Status: StatusSuccess, Data: mustJSON(text), Message: text}
}

// Fail returns an ERROR result: an answer that the model reads. The call ends FAILED with EXECUTION_FAILED.
func Fail(format string, args ...any) *Result {
	return FailCode("", format, args...)
}

// FailCode returns the same result as Fail, with the tool's own code as the reason.
func FailCode(reason, format string, args ...any) *Result {
	return &Result{Status: StatusError, Error: &Error{Code: ExecutionFailed, Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// Suspended returns a result that suspends the call with the default ticket: the action is tool:<id>, and the tool runs again with the
// answer.
func Suspended(message string) *Result {
	return &Result{Status: StatusPending, Message: message}
}

// SuspendedWith returns a result that suspends the call with the ticket t.
func SuspendedWith(t Ticket) *Result {
	return &Result{Status: StatusPending, Message: t.Message, Suspension: &t}
}

// With adds commands that commit with the call, and returns r.
func (r *Result) With(commands ...Command) *Result {
	r.Documents = append(r.Documents, commands...)
	return r
}

// Then adds actions that are carried out after the call, and returns r.
func (r *Result) Then(actions ...Action) *Result {
	r.Actions = append(r.Actions, actions...)
	return r
}

// IsSuccess reports whether the tool succeeded.
func (r *Result) IsSuccess() bool { return r != nil && r.Status == StatusSuccess }

// IsPending reports whether the result suspends the call, or says that an operation continues elsewhere.
func (r *Result) IsPending() bool { return r != nil && r.Status == StatusPending }

// IsError reports whether the result is an error that the model should read.
func (r *Result) IsError() bool { return r != nil && r.Status == StatusError }

// JSON returns the data, or "null" when there is none.
func (r *Result) JSON() string {
	if r == nil || r.Data == "" {
		return "null"
	}
	return r.Data
}

// ModelText returns the text for the model: an error as readable text, otherwise the message, otherwise the data.
func (r *Result) ModelText() string {
	switch {
	case r == nil:
		return ""
	case r.Error != nil && r.Error.Message != "":
		return r.Error.text()
	case r.Error != nil:
		return "The call failed: " + strings.ToLower(strings.ReplaceAll(string(r.Error.Code), "_", " "))
	case r.Message != "":
		return r.Message
	default:
		return r.Data
	}
}

// text returns the message, followed by the violations, one in each line.
func (e *Error) text() string {
	if len(e.Violations) == 0 {
		return e.Message
	}
	var b strings.Builder
	b.WriteString(e.Message)
	for _, v := range e.Violations {
		b.WriteString("\n- ")
		if v.Field != "" {
			b.WriteString(v.Field + ": ")
		}
		b.WriteString(v.Description)
	}
	return b.String()
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("tool: result has no JSON form: " + err.Error())
	}
	return string(b)
}
