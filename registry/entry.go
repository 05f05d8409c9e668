package registry

import (
	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// An Entry is a registered tool. It is immutable: when the source replaces the tool, there is a new entry.
type Entry struct {
	Tool tool.Tool
	// Definition has the descriptor of the tool with its source, with the defaults of its effects written out and with a schema for
	// its parameters in any case.
	tool.Definition
	Source    string
	namespace string // whose callers alone have the tool; "": all

	parameters *Schema
	result     *Schema // nil: any data is valid

	own       tool.Descriptor // of the source, without overrides
	ownDigest string
	claim     string // the digest that is compared with the trusted one
	trusted   *Pin   // in quarantine: the definition that is trusted instead
}

// ValidateArguments checks arguments against the tool's parameters. The error is a [*tool.Error] with the code InvalidArguments that names
// each field. The caller calls the tool's own Validate.
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
