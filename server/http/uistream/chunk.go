package uistream

import (
	"encoding/json"
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
	ID           string          `json:"id,omitempty"` // id of a data part; a later part with the same type and id replaces it
	Data         any             `json:"data,omitempty"`
	Transient    bool            `json:"transient,omitempty"`
	FinishReason string          `json:"finishReason,omitempty"`
}
