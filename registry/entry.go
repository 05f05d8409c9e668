package registry

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// An Entry is a registered tool. It never changes: a tool that its source replaces gets a new one.
type Entry struct {
	Tool tool.Tool
	// Definition has the descriptor of the tool with its source, with the defaults of its effects written out and with a schema for
	// its parameters in any case.
	tool.Definition
	Source    string
	namespace string // that alone has the tool; "": every one

	parameters *Schema
	result     *Schema // nil when data may be anything

	own       tool.Descriptor // as the source has it, without overrides
	ownDigest string
	claim     string // the digest of what is held against what is trusted
	trusted   *Pin   // in quarantine: what is trusted in its place
}

// ValidateArguments holds arguments against the tool's parameters. The error is a [*tool.Error] of the kind
// InvalidArguments that names each field. What the tool's own Validate says is the caller's to ask.
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

// ValidateResult holds the data of a SUCCESS result against the tool's result schema; without one everything passes,
// and no data counts as null. The error is a [*tool.Error] of the kind ExecutionFailed, reason RESULT_SCHEMA.
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
