package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// A line is one line of JSON from a program. It is an object with exactly one of the members in kinds. A line with result may also have
// message, content, display_preference and metadata. A persistent program adds the id of the call to every line.
type line struct {
	ID       string
	Progress *tool.Progress
	Activity *struct {
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Content json.RawMessage `json:"content"`
	}
	Delta *struct {
		ID    string          `json:"id"`
		Patch json.RawMessage `json:"patch"`
	}
	Output *struct {
		Stream string `json:"stream"`
		Text   string `json:"text"`
	}
	Checkpoint json.RawMessage
	Suspend    *question
	Error      *failure
	Result     json.RawMessage
	Message    string
	Content    []tool.Content
	Display    tool.Display
	Metadata   map[string]string
}

// question is the JSON form of [tool.Ticket].
type question struct {
	Action         string          `json:"action"`
	Message        string          `json:"message"`
	Parameters     json.RawMessage `json:"parameters"`
	ResponseSchema json.RawMessage `json:"response_schema"`
	ResumeMode     tool.ResumeMode `json:"resume_mode"`
	Approvers      *tool.Approvers `json:"approvers"`
	ExpiresIn      string          `json:"expires_in"` // a duration such as 24h or 7d
	DefaultResult  json.RawMessage `json:"default_result"`
}

type failure struct {
	Reason    string          `json:"reason"`
	Message   string          `json:"message"`
	Retryable bool            `json:"retryable"`
	Data      json.RawMessage `json:"data"`
}

// Each line has exactly one of these members.
var kinds = []string{"progress", "activity", "activity_delta", "output", "checkpoint", "suspend", "error", "result"}

// last reports whether the line ends its call.
func (l *line) last() bool { return l.Suspend != nil || l.Error != nil || l.Result != nil }

// parseLine parses a line. It rejects unknown members, so that a misspelled member is not ignored.
func parseLine(text []byte) (*line, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not UTF-8")
	}
	members, err := objectOf(text)
	if err != nil {
		return nil, err
	}
	l := &line{}
	kind := ""
	for name, value := range members {
		if slices.Contains(kinds, name) {
			if kind != "" {
				return nil, fmt.Errorf("has %s and %s; a line has exactly one of %s", min(kind, name), max(kind, name), strings.Join(kinds, ", "))
			}
			kind = name
		}
		if err := l.set(name, value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if kind == "" {
		return nil, fmt.Errorf("has none of %s", strings.Join(kinds, ", "))
	}
	return l, l.check(kind)
}

func (l *line) set(name string, value json.RawMessage) error {
	to, known := map[string]any{
		"id": &l.ID, "progress": &l.Progress, "activity": &l.Activity, "activity_delta": &l.Delta, "output": &l.Output, "suspend": &l.Suspend, "error": &l.Error,
		"message": &l.Message, "content": &l.Content, "display_preference": &l.Display, "metadata": &l.Metadata,
	}[name]
	switch {
	case name == "result":
		l.Result = value
		return nil
	case name == "checkpoint":
		l.Checkpoint = value
		return nil
	case !known:
		return errors.New("is not a known member of a line")
	case name == "output" && bytes.HasPrefix(value, []byte(`"`)):
		value = slices.Concat([]byte(`{"text":`), value, []byte(`}`))
	}
	if bytes.Equal(value, []byte("null")) {
		return errors.New("is null")
	}
	return strictly(value, to)
}

func (l *line) check(kind string) error {
	switch {
	case kind != "result" && (l.Message != "" || l.Content != nil || l.Display != "" || l.Metadata != nil):
		return errors.New("message, content, display_preference and metadata are only allowed with result")
	case kind == "progress":
		return checkProgress(l.Progress)
	case kind == "activity" && (l.Activity.ID == "" || l.Activity.Content == nil), kind == "activity_delta" && (l.Delta.ID == "" || l.Delta.Patch == nil):
		return errors.New("requires an id, and content or a patch")
	case kind == "output" && l.Output.Stream != "" && !stream.MatchString(l.Output.Stream):
		return fmt.Errorf("output: stream %q is not a name such as stdout", l.Output.Stream)
	case kind == "suspend":
		_, err := l.Suspend.ticket()
		return err
	case kind == "error" && l.Error.Message == "":
		return errors.New("error: requires a message")
	case kind == "error" && l.Error.Reason != "" && !reason.MatchString(l.Error.Reason):
		return fmt.Errorf("error: reason %q is not upper case, such as NO_MATCH", l.Error.Reason)
	case !slices.Contains([]tool.Display{"", tool.DisplayDefault, tool.DisplayCollapsed, tool.DisplayCode, tool.DisplayMarkdown, tool.DisplayDiff, tool.DisplayHidden}, l.Display):
		return fmt.Errorf("display_preference %q is unknown", l.Display)
	}
	for i := range l.Content {
		if err := checkContent(&l.Content[i]); err != nil {
			return fmt.Errorf("content[%d]: %w", i, err)
		}
	}
	return nil
}

var (
	reason = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)
	stream = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

func checkProgress(p *tool.Progress) error {
	if p.Status == "" {
		p.Status = tool.ProgressRunning
	}
	return p.Check()
}

const (
	maxContents    = 100
	maxContentData = 64 << 10
	maxQuestion    = 16 << 10
)

func checkContent(c *tool.Content) error {
	switch c.Type {
	case tool.ContentText, tool.ContentDiff:
		if c.Data != nil || c.Artifact != "" {
			return errors.New("text has no data")
		}
	case tool.ContentImage, tool.ContentAudio, tool.ContentDocument, tool.ContentUI:
		if len(c.Data) > maxContentData || c.Artifact != "" {
			return fmt.Errorf("data must have at most %d bytes", maxContentData)
		}
	case tool.ContentLink:
		if c.URI == "" {
			return errors.New("requires a uri")
		}
	default:
		return fmt.Errorf("type %q is not text, image, audio, document, diff, resource_link or ui", c.Type)
	}
	return nil
}

func (q *question) ticket() (*tool.Ticket, error) {
	t := &tool.Ticket{
		Action: q.Action, Message: q.Message, Parameters: q.Parameters, ResponseSchema: q.ResponseSchema, ResumeMode: q.ResumeMode, Approvers: q.Approvers,
		DefaultResult: string(q.DefaultResult),
	}
	if strings.TrimSpace(q.Message) == "" || len(q.Message) > maxQuestion {
		return nil, fmt.Errorf("suspend: requires a message of at most %d bytes for the person who answers", maxQuestion)
	}
	if !slices.Contains([]tool.ResumeMode{"", tool.ReplayToolCall, tool.UseDecisionAsToolResult, tool.PassDecisionToTool}, q.ResumeMode) {
		return nil, fmt.Errorf("suspend: resume_mode %q is not REPLAY_TOOL_CALL, USE_DECISION_AS_TOOL_RESULT or PASS_DECISION_TO_TOOL", q.ResumeMode)
	}
	if q.ExpiresIn != "" {
		d, err := parseDuration(q.ExpiresIn)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("suspend: expires_in %q is not a duration such as 24h or 7d", q.ExpiresIn)
		}
		t.ExpiresIn = d
	}
	return t, nil
}

// objectOf returns the members of a JSON object. It rejects duplicate members.
func objectOf(text []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, errors.New("is not a JSON object")
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("is not valid JSON: %w", err)
		}
		name, _ := key.(string)
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("has %q twice", name)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("is not valid JSON: %w", err)
		}
		members[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	if d.InputOffset() != int64(len(bytes.TrimRight(text, " \t\r\n"))) {
		return nil, errors.New("has text after the object")
	}
	return members, nil
}

// strictly decodes a JSON value into the Go value that to points to. It rejects members for which this Go value has no field.
func strictly(value json.RawMessage, to any) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	return d.Decode(to)
}
