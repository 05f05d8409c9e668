package call

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// MaxDocumentKey is the maximum length of a document's key, in bytes.
const MaxDocumentKey = 256

// A ConflictError says why a command cannot be applied to a document in its current state.
type ConflictError struct {
	Reason Conflict
	Detail string
}

func (e *ConflictError) Error() string { return e.Detail }

// MaxCommands is the maximum number of document commands of one step of a call, or of one handler.
const MaxCommands = 256

// CheckCommand returns an error for a command that no document could accept. The command comes from a tool, a hook or a client.
func CheckCommand(c *tool.Command) error {
	switch {
	case c.Key == "" || !utf8.ValidString(c.Key):
		return fmt.Errorf("the key is empty or not UTF-8")
	case len(c.Key) > MaxDocumentKey:
		return fmt.Errorf("the key has %d bytes; %d are allowed", len(c.Key), MaxDocumentKey)
	case c.Expected != nil && *c.Expected < 0:
		return fmt.Errorf("no revision is %d", *c.Expected)
	}
	switch c.Op {
	case tool.OpDelete:
		return nil
	case tool.OpSet, tool.OpMerge, tool.OpAppend, tool.OpAdd:
	default:
		return fmt.Errorf("there is no command %q", c.Op)
	}
	v, err := ParseJSON(c.Value, 0)
	if err == nil && c.Op == tool.OpAppend {
		_, err = ParseJSON("["+c.Value+"]", 0) // Check the value inside a list, because there it is one level deeper and must still not exceed the depth limit.
	}
	if err != nil {
		return fmt.Errorf("the value is not JSON: %w", err)
	}
	if _, ok := v.(json.Number); c.Op == tool.OpAdd && !ok {
		return fmt.Errorf("the value is not a number")
	}
	return nil
}

// Apply applies a command to a document and returns the new JSON text. An empty text means no document. The command must have passed
// [CheckCommand]. The error is a [*ConflictError].
func Apply(document string, c *tool.Command) (string, error) {
	switch c.Op {
	case tool.OpSet:
		return c.Value, nil
	case tool.OpDelete:
		return "", nil
	case tool.OpMerge:
		return merge(document, c.Value)
	case tool.OpAdd:
		return add(document, c.Value)
	case tool.OpAppend:
		return appendTo(document, c.Value)
	}
	return "", fmt.Errorf("there is no command %q", c.Op)
}

// merge applies a JSON Merge Patch and returns the result in canonical form.
func merge(document, patch string) (string, error) {
	var target any
	if document != "" {
		var err error
		if target, err = ParseJSON(document, 0); err != nil {
			return "", &ConflictError{ConflictBroken, err.Error()}
		}
	}
	p, err := ParseJSON(patch, 0)
	if err != nil {
		return "", err
	}
	return string(AppendCanonical(nil, Merge(target, p))), nil
}

// Merge applies MergePatch of RFC 7396 to values from [ParseJSON]. It modifies neither argument.
func Merge(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	before, _ := target.(map[string]any)
	object := maps.Clone(before)
	if object == nil {
		object = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(object, name)
			continue
		}
		object[name] = Merge(object[name], value)
	}
	return object
}

// appendTo appends a value to an array. It does not parse or change the other elements.
func appendTo(document, value string) (string, error) {
	if document == "" {
		return "[" + value + "]", nil
	}
	array := strings.TrimRight(document, jsonSpace)
	if trimmed := strings.TrimLeft(array, jsonSpace); trimmed == "" || trimmed[0] != '[' {
		return "", &ConflictError{ConflictType, "the document is not an array"}
	}
	before := strings.TrimRight(array[:len(array)-1], jsonSpace)
	if before[len(before)-1] == '[' { // The array is empty: the text of an element cannot end with '['.
		return before + value + "]", nil
	}
	return before + "," + value + "]", nil
}

const jsonSpace = " \t\r\n"
