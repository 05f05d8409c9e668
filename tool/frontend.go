package tool

import "encoding/json"

// FrontendPrefix begins the names of frontend tools and of no other: a declaration never replaces a tool of the daemon.
const FrontendPrefix = "fe_"

// A FrontendTool is declared by a caller for its run. Its calls are checked and gated like all others; then the caller's
// frontend executes them and sends the result as a decision.
type FrontendTool struct {
	Name        string          `json:"name"` // begins with [FrontendPrefix]
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema; empty means: no arguments
	// ResponseSchema is what the frontend's result must meet; empty takes any JSON.
	ResponseSchema json.RawMessage `json:"response_schema,omitempty"`
}
