package registry

import (
	"time"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry/rank"
	"github.com/toold-dev/toold/tool"
)

// An Entry is a registered tool. It is immutable: when the source replaces the tool, the registry makes a new entry.
type Entry struct {
	Tool tool.Tool
	// Definition has the descriptor of the tool and its source. The defaults of its effects are filled in, and it always has a schema for
	// its parameters.
	tool.Definition
	Source    string
	namespace string // The only namespace whose callers have the tool. Empty means all namespaces.

	parameters *Schema
	result     *Schema // nil means that any data is valid

	own       tool.Descriptor // descriptor from the source, without overrides
	ownDigest string
	claim     string    // digest to compare with the trusted one
	trusted   *Pin      // the trusted definition, which differs from this one; set only in quarantine
	since     time.Time // time when this definition was first received; set only in quarantine
	refused   *Refusal  // the operator's refusal of this definition; set only in quarantine

	words func() *rank.Document // reads the words of the descriptor when it is first called
}

// ValidateArguments checks arguments against the tool's parameters. The error is a [*tool.Error] with the code InvalidArguments and a
// violation for each field. It does not call the tool's own Validate; the caller does.
func (e *Entry) ValidateArguments(args tool.Arguments) error {
	value := args.Value()
	if value == nil {
		value = map[string]any{}
	}
	violations := e.parameters.Validate(value)
	if len(violations) == 0 {
		return nil
	}
	return &tool.Error{
		Code: tool.InvalidArguments, Reason: "SCHEMA", Aborted: true, Violations: violations,
		Message: "The arguments do not fit the parameters of " + e.Descriptor.ID + ":",
	}
}

// ValidateResult checks the data of a SUCCESS result against the tool's result schema, if it has one. Empty data counts as null. The error
// is a [*tool.Error] with the code ExecutionFailed and the reason RESULT_SCHEMA.
func (e *Entry) ValidateResult(data string) error {
	if e.result == nil {
		return nil
	}
	if data == "" {
		data = "null"
	}
	refusal := &tool.Error{
		Code: tool.ExecutionFailed, Reason: "RESULT_SCHEMA",
		Message: "The result of " + e.Descriptor.ID + " does not fit the tool's result schema:",
	}
	value, err := call.ParseJSON(data, 0)
	if err != nil {
		refusal.Violations = []tool.Violation{{Description: err.Error()}}
		return refusal
	}
	if refusal.Violations = e.result.Validate(value); len(refusal.Violations) > 0 {
		return refusal
	}
	return nil
}
