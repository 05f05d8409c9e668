package call

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toold-dev/toold/tool"
)

// DefaultMaxArguments bounds the arguments of a tool that names no bound of its own, in bytes.
const DefaultMaxArguments = 256 << 10

// ParseArguments parses a call's arguments strictly: empty text and null mean {}. The error is what the model reads, of
// the kind InvalidArguments. Broken JSON is never repaired.
func ParseArguments(text string, limit int) (tool.Arguments, error) {
	if limit <= 0 {
		limit = DefaultMaxArguments
	}
	if len(text) > limit {
		return tool.Arguments{}, &tool.Error{Code: tool.InvalidArguments, Reason: "TOO_LARGE", Aborted: true,
			Message: fmt.Sprintf("The arguments have %d bytes; this tool takes at most %d.", len(text), limit)}
	}
	trimmed := strings.Trim(text, " \t\r\n")
	if trimmed == "" || trimmed == "null" {
		return tool.NewArguments("{}", map[string]any{}), nil
	}
	v, err := ParseJSON(text, 0)
	if err != nil {
		return tool.Arguments{}, syntaxRefusal(err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return tool.Arguments{}, &tool.Error{Code: tool.InvalidArguments, Reason: "NOT_AN_OBJECT", Aborted: true,
			Message: "The arguments must be a JSON object, such as {\"path\": \"README.md\"}."}
	}
	return tool.NewArguments(text, object), nil
}

// Canonical returns the arguments with their canonical text: the bytes that are digested and run.
func Canonical(a tool.Arguments) tool.Arguments {
	return tool.NewArguments(string(AppendCanonical(nil, a.Value())), a.Value())
}

func syntaxRefusal(err error) error {
	refusal := &tool.Error{Code: tool.InvalidArguments, Reason: "MALFORMED_JSON", Aborted: true, Message: "The arguments are not valid JSON: " + err.Error() + "."}
	var syntax *SyntaxError
	if errors.As(err, &syntax) && syntax.Truncated {
		refusal.Reason = "TRUNCATED_JSON"
	}
	return refusal
}
