package tool

// Arguments are a call's arguments, parsed once and strictly. The same value serves validation, gates and the tool: none
// of them may change it.
type Arguments struct {
	text  string
	value map[string]any
}

// NewArguments pairs a JSON object's text with its parsed value (map[string]any, []any, string, json.Number, bool, nil).
// Only a caller that parsed the text strictly may call it.
func NewArguments(text string, value map[string]any) Arguments {
	return Arguments{text, value}
}

// Text returns the arguments as JSON text; "{}" when there are none.
func (a Arguments) Text() string {
	if a.text == "" {
		return "{}"
	}
	return a.text
}

// Value returns the parsed object. It is shared: read it only.
func (a Arguments) Value() map[string]any { return a.value }

// String returns the string member of this name, or "".
func (a Arguments) String(name string) string {
	s, _ := a.value[name].(string)
	return s
}
