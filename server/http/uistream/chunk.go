package uistream

import (
	"encoding/json"
	"time"
)

// A Chunk is one message of the stream. Type says which other members are set.
type Chunk struct {
	Type         string          `json:"type"`
	MessageID    string          `json:"messageId,omitempty"`
	ToolCallID   string          `json:"toolCallId,omitempty"`
	ToolName     string          `json:"toolName,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	Dynamic      bool            `json:"dynamic,omitempty"`
	ApprovalID   string          `json:"approvalId,omitempty"`
	Approved     *bool           `json:"approved,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	Output       json.RawMessage `json:"output,omitempty"`
	Preliminary  bool            `json:"preliminary,omitempty"`
	ErrorText    string          `json:"errorText,omitempty"`
	ID           string          `json:"id,omitempty"` // of a data part; a later part with the same type and id replaces it
	Data         any             `json:"data,omitempty"`
	Transient    bool            `json:"transient,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"`
}

// Progress is the data of data-toold-progress.
type Progress struct {
	CallID     string  `json:"callId"`
	ToolCallID string  `json:"toolCallId"`
	Status     string  `json:"status"` // pending, running, done, failed or cancelled
	Fraction   float64 `json:"fraction"`
	Message    string  `json:"message,omitempty"`
	Loaded     int64   `json:"loaded,omitempty"`
	Total      int64   `json:"total,omitempty"`
}

// Activity is the data of data-toold-activity, and with Patch that of data-toold-activity-delta.
type Activity struct {
	CallID     string          `json:"callId"`
	ToolCallID string          `json:"toolCallId"`
	ActivityID string          `json:"activityId"`
	Type       string          `json:"type,omitempty"`
	Content    json.RawMessage `json:"content,omitempty"`
	Patch      json.RawMessage `json:"patch,omitempty"` // a list of RFC 6902 operations
}

// Question is the data of data-toold-question: everything that a person needs to answer, and the answer.
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
	Arguments      json.RawMessage `json:"arguments,omitempty"` // exactly what runs
	ResponseSchema json.RawMessage `json:"responseSchema,omitempty"`
	Digest         string          `json:"digest"`
	ExpiresAt      time.Time       `json:"expiresAt"`
	Votes          int32           `json:"votes,omitempty"`
	Needed         int32           `json:"needed,omitempty"` // absent if one answer is enough
	DecidedBy      string          `json:"decidedBy,omitempty"`
	Reason         string          `json:"reason,omitempty"`
}

// Gap is the data of data-toold-gap: events of a call are missing.
type Gap struct {
	CallID string `json:"callId,omitempty"`
	Reason string `json:"reason"` // trimmed, lost_tail or corrupt
}

// jsonOf returns JSON text as it is, and other text as a JSON string. Empty text stays empty.
func jsonOf(text string) json.RawMessage {
	if text == "" || json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return quote(text)
}

func quote(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings, and maps of them
	}
	return b
}
