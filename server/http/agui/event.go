package agui

import (
	"encoding/json"
	"time"
)

// An Event is one event of the protocol. Type says which other members are set.
type Event struct {
	Type            string          `json:"type"`
	ThreadID        string          `json:"threadId,omitempty"`
	RunID           string          `json:"runId,omitempty"`
	ProtocolVersion string          `json:"protocolVersion,omitempty"`
	MessageID       string          `json:"messageId,omitempty"`
	ParentMessageID string          `json:"parentMessageId,omitempty"`
	ToolCallID      string          `json:"toolCallId,omitempty"`
	ToolCallName    string          `json:"toolCallName,omitempty"`
	Delta           string          `json:"delta,omitempty"`
	Role            string          `json:"role,omitempty"`
	ActivityType    string          `json:"activityType,omitempty"`
	Content         any             `json:"content,omitempty"` // text of a result, or the object of an activity
	Patch           json.RawMessage `json:"patch,omitempty"`   // a list of RFC 6902 operations
	Outcome         *Outcome        `json:"outcome,omitempty"`
	Message         string          `json:"message,omitempty"`
	Name            string          `json:"name,omitempty"`
	Value           any             `json:"value,omitempty"`
	Metadata        map[string]any  `json:"metadata,omitempty"`
}

// An Outcome says how a run ended.
type Outcome struct {
	Type       string      `json:"type"` // success or interrupt
	Interrupts []Interrupt `json:"interrupts,omitempty"`
}

// An Interrupt is a question that a person must answer.
type Interrupt struct {
	ID             string          `json:"id"` // the id of the suspension, a dot, and the digest of what is shown
	Reason         string          `json:"reason"`
	ToolCallID     string          `json:"toolCallId"`
	Message        string          `json:"message,omitempty"`
	ResponseSchema json.RawMessage `json:"responseSchema"`
	ExpiresAt      time.Time       `json:"expiresAt"`
	Metadata       map[string]any  `json:"metadata,omitempty"`
}
