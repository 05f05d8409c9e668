package tool

// Arguments are a call's arguments, parsed once with a strict parser. Validation, gates and the tool share the same value, so none of them
// may change it.
type Arguments struct {
	text  string
	value map[string]any
}

// NewArguments combines the text of a JSON object with its parsed value (map[string]any, []any, string, json.Number, bool, nil). The caller
// must have parsed the text strictly.
func NewArguments(text string, value map[string]any) Arguments {
	return Arguments{text, value}
}

// Text returns the arguments as JSON text, or "{}" when there are none.
func (a Arguments) Text() string {
	if a.text == "" {
		return "{}"
	}
	return a.text
}

// Value returns the parsed object. It is shared, so the caller must not change it.
func (a Arguments) Value() map[string]any { return a.value }

// String returns the string member with this name, or "".
func (a Arguments) String(name string) string {
	s, _ := a.value[name].(string)
	return s
}
