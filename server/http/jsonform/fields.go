package jsonform

import "google.golang.org/protobuf/reflect/protoreflect"

// textFields lists the fields that hold JSON text, by message. A test compares this list with the comments of the protos. The parts of a
// TurnMessage are not in the list, because a part is not a complete JSON text.
var textFields = map[protoreflect.Name][]protoreflect.Name{
	"ActivityDelta":        {"patch"},
	"ActivitySnapshot":     {"content"},
	"Agent":                {"spec"},
	"Call":                 {"requested_arguments", "effective_arguments"},
	"CallSpec":             {"arguments"},
	"DeadLetter":           {"payload"},
	"Decision":             {"result", "arguments"},
	"DescribeCallResponse": {"effective_arguments"},
	"Descriptor":           {"parameters", "result_schema"},
	"Document":             {"value"},
	"DocumentCommand":      {"value"},
	"ExportToolsResponse":  {"tools"},
	"FrontendTool":         {"parameters", "response_schema"},
	"HookDocument":         {"value"},
	"HookInput":            {"arguments", "requested_arguments"},
	"HookResult":           {"data"},
	"HookTicket":           {"parameters", "response_schema"},
	"PendingCall":          {"arguments"},
	"PutDocumentRequest":   {"value"},
	"ResultInstead":        {"data"},
	"RewriteResponse":      {"arguments"},
	"Suspension":           {"parameters", "response_schema", "default_result"},
	"ToolResult":           {"data"},
	"TurnSpec":             {"message"},
	"Vote":                 {"arguments"},
	"WorkerCall":           {"arguments"},
	"WorkerResult":         {"data"},
	"WorkerResume":         {"result"},
	"WorkerTicket":         {"parameters", "response_schema", "default_result"},
}

// HoldsJSON reports whether a field holds JSON text.
func HoldsJSON(f protoreflect.FieldDescriptor) bool {
	for _, name := range textFields[f.Parent().Name()] {
		if name == f.Name() {
			return true
		}
	}
	return false
}
