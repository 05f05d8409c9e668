package call

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/toold-dev/toold/tool"
)

// MaxDocumentKey bounds the name of a document, in bytes.
const MaxDocumentKey = 256

// A ConflictError is why a command cannot be carried out on a document as it is.
type ConflictError struct {
	Reason Conflict
	Detail string
}

func (e *ConflictError) Error() string { return e.Detail }

// MaxCommands bounds the document commands of one step of a call, or of one handler.
const MaxCommands = 256

// CheckCommand returns what is wrong with a command that a tool, a hook or a client made, whatever it meets.
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
		_, err = ParseJSON("["+c.Value+"]", 0) // it must not be too deep there
	}
	if err != nil {
		return fmt.Errorf("the value is not JSON: %w", err)
	}
	if _, ok := v.(json.Number); c.Op == tool.OpAdd && !ok {
		return fmt.Errorf("the value is no number")
	}
	return nil
}

// Apply returns the JSON text that a command which [CheckCommand] passed makes of a document; "" is no document.
// An error is a [*ConflictError].
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

// merge is a JSON Merge Patch. What results is in canonical form.
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

// Merge is MergePatch of RFC 7396 on values of [ParseJSON]. It changes neither.
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

// appendTo puts a value behind the last one of an array. The others are not looked at: they stay as they are.
func appendTo(document, value string) (string, error) {
	if document == "" {
		return "[" + value + "]", nil
	}
	array := strings.TrimRight(document, jsonSpace)
	if trimmed := strings.TrimLeft(array, jsonSpace); trimmed == "" || trimmed[0] != '[' {
		return "", &ConflictError{ConflictType, "the document is no array"}
	}
	before := strings.TrimRight(array[:len(array)-1], jsonSpace)
	if before[len(before)-1] == '[' { // it is the first one: a value cannot end like this
		return before + value + "]", nil
	}
	return before + "," + value + "]", nil
}

const jsonSpace = " \t\r\n"
