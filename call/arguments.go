package call

import (
	"errors"
	"fmt"

	"github.com/toold-dev/toold/tool"
)

// DefaultMaxArguments is the limit in bytes for the arguments of a tool without its own limit.
const DefaultMaxArguments = 256 << 10

// Arguments returns the arguments of a call with their canonical text, whose bytes are digested and run. limit is the maximum size of the
// text as sent, in bytes; 0 means [DefaultMaxArguments]. The error has the code InvalidArguments, and its text is for the model. Invalid
// JSON is never repaired.
func (p Parsed) Arguments(limit int) (tool.Arguments, error) {
	if limit <= 0 {
		limit = DefaultMaxArguments
	}
	if len(p.Text) > limit {
		return tool.Arguments{}, refuseArguments("TOO_LARGE",
			fmt.Sprintf("The arguments have %d bytes; this tool takes at most %d.", len(p.Text), limit))
	}
	if p.Err != nil {
		return tool.Arguments{}, syntaxRefusal(p.Err)
	}
	object, ok := p.Value.(map[string]any)
	if !ok {
		return tool.Arguments{}, refuseArguments("NOT_AN_OBJECT", `The arguments must be a JSON object, such as {"path": "README.md"}.`)
	}
	return tool.NewArguments(p.Canonical, object), nil
}

func syntaxRefusal(err error) error {
	reason := "MALFORMED_JSON"
	var syntax *SyntaxError
	if errors.As(err, &syntax) && syntax.Truncated {
		reason = "TRUNCATED_JSON"
	}
	return refuseArguments(reason, "The arguments are not valid JSON: "+err.Error()+".")
}

func refuseArguments(reason, message string) error {
	return &tool.Error{Code: tool.InvalidArguments, Reason: reason, Message: message, Aborted: true}
}
