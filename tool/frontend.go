package tool

import "encoding/json"

// FrontendPrefix is the prefix of the names of frontend tools. Other tools must not have it, so a declaration never replaces a tool of the
// daemon.
const FrontendPrefix = "fe_"

// A FrontendTool is a tool that a caller declares for its run. The engine checks and gates its calls like all others. The caller's frontend
// then executes them and sends the result as a decision.
type FrontendTool struct {
	Name        string          `json:"name"` // must begin with [FrontendPrefix]
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema; empty means no arguments
	// ResponseSchema is the schema for the frontend's result. Empty accepts any JSON.
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
}
