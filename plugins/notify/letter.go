package notify

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/hook"
)

// Size limits of texts in letters, in bytes. A letter is large enough for all of them, even when JSON needs six bytes for each byte.
const (
	maxMessage = 2 << 10
	maxTitle   = 512
	maxText    = 4 << 10
)

// letter is a CloudEvent in structured mode.
type letter struct {
	SpecVersion string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject"`
	Time        string `json:"time"`
	ContentType string `json:"datacontenttype"`
	Data        data   `json:"data"`
}

type data struct {
	Namespace    string `json:"namespace"`
	CallID       string `json:"call_id"`
	Attempt      int    `json:"attempt,omitempty"`
	ModelCallID  string `json:"model_call_id,omitempty"`
	RunID        string `json:"run_id,omitempty"`
	ThreadID     string `json:"thread_id,omitempty"`
	BatchID      string `json:"batch_id,omitempty"`
	Tool         string `json:"tool"`
	Status       string `json:"status"`
	Executed     string `json:"executed,omitempty"`
	ErrorCode    string `json:"error_code,omitempty"`
	ErrorReason  string `json:"error_reason,omitempty"`
	SuspensionID string `json:"suspension_id,omitempty"`
	Action       string `json:"action,omitempty"`
	Message      string `json:"message,omitempty"`
	ExpiresAt    string `json:"expires_at,omitempty"`
	Title        string `json:"title,omitempty"`
	Result       string `json:"result,omitempty"`
	Link         string `json:"link,omitempty"` // URL of the call's page in the console
}

// letterOf returns the letter of an event as JSON. The letter's ID cannot contain the sequence number of the event, because this number is
// not known before the event is stored. The ID is still unique: a call ends only once, and each suspension has its own ID. console is the
// base URL of the console, or empty when there is no console.
func letterOf(in hook.Notice, content bool, console string) string {
	c, ev := in.Call, in.Event
	l := letter{
		SpecVersion: "1.0", Source: "urn:toold:store:" + in.StoreID, Subject: c.ID, Time: ev.Time.UTC().Format(time.RFC3339Nano),
		ContentType: "application/json",
		Data: data{
			Namespace: c.Namespace, CallID: c.ID, Attempt: len(c.Attempts), ModelCallID: c.ModelCallID, RunID: c.Run.ID, ThreadID: c.Run.Thread, BatchID: c.BatchID,
			Tool: c.Tool, Status: string(c.Status), Executed: string(c.Executed),
		},
	}
	if s := ev.Suspension; s != nil {
		l.Type, l.ID = "dev.toold.call.suspended", s.ID
		l.Data.SuspensionID, l.Data.Action, l.Data.Message = s.ID, s.Action, cut(s.Message, maxMessage)
		l.Data.ExpiresAt = s.ExpiresAt.Time().Format(time.RFC3339Nano)
		if content {
			l.Data.Title = cut(s.Description.Title, maxTitle)
		}
	} else if o := ev.Outcome; o != nil {
		l.Type, l.ID = "dev.toold.call.finished", "finished"
		l.Data.Status, l.Data.Executed = string(o.Status), string(o.Executed)
		if r := o.Result; r != nil && r.Error != nil {
			l.Data.ErrorCode, l.Data.ErrorReason = string(r.Error.Code), cut(r.Error.Reason, maxTitle)
		}
		if content {
			l.Data.Title, l.Data.Result = cut(c.Description.Title, maxTitle), cut(o.Result.ModelText(), maxText)
		}
	}
	if page := "/calls/" + url.PathEscape(c.ID); console != "" {
		if l.Data.SuspensionID != "" {
			page = "/inbox/" + url.PathEscape(l.Data.SuspensionID)
		}
		l.Data.Link = console + page
	}
	l.ID = c.Namespace + "/" + c.ID + "/" + l.ID
	text, _ := json.Marshal(l) // encoding strings cannot fail
	return string(text)
}

// cut shortens a text to at most n bytes, at a character boundary.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.TrimRight(text[:n], " \n") + "…"
}
