package follow

import (
	"encoding/json"
	"time"
)

// Progress is how far a call is.
type Progress struct {
	CallID     string  `json:"callId"`
	ToolCallID string  `json:"toolCallId"`
	Status     string  `json:"status"` // pending, running, done, failed or cancelled
	Fraction   float64 `json:"fraction"`
	Message    string  `json:"message,omitempty"`
	Loaded     int64   `json:"loaded,omitempty"`
	Total      int64   `json:"total,omitempty"`
}

// Activity is an activity of a call. If Patch is set, it changes the content of the activity with this id, and Content is empty.
type Activity struct {
	CallID     string          `json:"callId"`
	ToolCallID string          `json:"toolCallId"`
	ActivityID string          `json:"activityId"`
	Type       string          `json:"type,omitempty"`
	Content    json.RawMessage `json:"content,omitempty"`
	Patch      json.RawMessage `json:"patch,omitempty"` // a list of RFC 6902 operations
}

// Question has everything that a person needs to answer it, and later the answer.
type Question struct {
	SuspensionID   string          `json:"suspensionId"`
	CallID         string          `json:"callId"`
	ToolCallID     string          `json:"toolCallId"`
	State          string          `json:"state"` // open, approved, declined, or closed: the call ended without an answer
	Action         string          `json:"action"`
	Message        string          `json:"message,omitempty"`
	Title          string          `json:"title,omitempty"`
	Notes          []string        `json:"notes,omitempty"`
	Parameters     json.RawMessage `json:"parameters,omitempty"`
	Arguments      json.RawMessage `json:"arguments,omitempty"` // exactly the arguments that run
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	Digest         string          `json:"digest"`
	ExpiresAt      time.Time       `json:"expiresAt"`
	Votes          int32           `json:"votes,omitempty"`
	Needed         int32           `json:"needed,omitempty"` // absent if one answer is enough
	DecidedBy      string          `json:"decidedBy,omitempty"`
	Reason         string          `json:"reason,omitempty"`
}

// Gap says that events of a call, or of the run, are missing.
type Gap struct {
	CallID string `json:"callId,omitempty"`
	Reason string `json:"reason"` // trimmed, lost_tail or corrupt
}

// Approval reports whether the question is answered by yes or no.
func (q *Question) Approval() bool { return q.Action == "approval" && len(q.ResponseSchema) == 0 }

// JSON returns JSON text unchanged, and other text as a JSON string. Empty text stays empty.
func JSON(text string) json.RawMessage {
	if text == "" || json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return Quote(text)
}

// Quote returns the JSON text of a string or of a map of strings.
func Quote(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // This cannot happen: strings and maps of strings can always be encoded.
	}
	return b
}
