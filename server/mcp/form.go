package mcpserver

import (
	"encoding/json"
	"fmt"
	"slices"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A ticket has the questions of a suspension, each by its key. If it has parts, the result is an object with the answer to each question.
type ticket struct {
	forms    map[string]form
	hasParts bool
}

// A form is one question. MCP permits only an object of strings, numbers, booleans and choices. Any other value becomes the only field of
// an object, as JSON text if the field cannot hold it otherwise.
type form struct {
	message string
	schema  map[string]any
	isBare  bool // the answer is not the object but its only field
	isText  bool // that field is JSON text
	isEmpty bool // the question takes no result: the action alone is the answer
}

// soleKey is the key of the only question of a ticket, and the name of its field if the answer is not an object.
const soleKey = "answer"

// ticketOf returns the questions of a suspension. It asks several questions if each property of the answer is an object that a form can ask for.
// It drops the keywords that MCP does not permit: the daemon checks the answer against the whole schema, and the client is asked again.
func ticketOf(q *tooldv1.Suspension) *ticket {
	message := messageOf(q)
	var schema map[string]any
	known := json.Unmarshal([]byte(q.GetResponseSchema()), &schema) == nil
	sole := func(f form) *ticket {
		f.message = message
		return &ticket{forms: map[string]form{soleKey: f}}
	}
	if fields, ok := flat(schema); ok {
		return sole(form{schema: fields})
	}
	if f, ok := field(schema); ok {
		return sole(form{schema: object(map[string]any{soleKey: f}, []string{soleKey}), isBare: true})
	}
	if parts := partsOf(schema, message); parts != nil {
		return &ticket{forms: parts, hasParts: true}
	}
	switch {
	case takesNoResult(q):
		return sole(form{schema: object(map[string]any{}, nil), isEmpty: true})
	case !known:
		return sole(textForm("Text, or any JSON value."))
	}
	return sole(textForm("JSON text that matches this schema: " + clean(q.GetResponseSchema())))
}

// partsOf returns a form for each property of a schema. It returns nil if a form cannot ask for one of them.
func partsOf(schema map[string]any, message string) map[string]form {
	parts := map[string]form{}
	properties, _ := schema["properties"].(map[string]any)
	for key, p := range properties {
		is, _ := p.(map[string]any)
		fields, ok := flat(is)
		if !ok {
			return nil
		}
		f := form{message: message, schema: fields}
		if text, ok := is["description"].(string); ok {
			f.message += "\n" + clean(text)
		}
		parts[key] = f
	}
	if len(parts) == 0 {
		return nil
	}
	return parts
}

// takesNoResult reports whether a question accepts no result; see Suspension.response_schema.
func takesNoResult(q *tooldv1.Suspension) bool {
	return q.GetResponseSchema() == "" && (q.GetAction() == approval || q.GetOrigin() != "tool" && q.GetResumeMode() == tooldv1.ResumeMode_RESUME_MODE_REPLAY_TOOL_CALL)
}

func textForm(description string) form {
	text := map[string]any{"type": "string", "description": description}
	return form{schema: object(map[string]any{soleKey: text}, []string{soleKey}), isBare: true, isText: true}
}

func object(properties map[string]any, required []string) map[string]any {
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// content returns the JSON text that an accepted answer gives.
func (f *form) content(text json.RawMessage) (json.RawMessage, error) {
	if len(text) == 0 {
		text = json.RawMessage(`{}`)
	}
	switch {
	case f.isEmpty:
		return nil, nil
	case !f.isBare:
		return text, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if fields[soleKey] == nil {
		return nil, fmt.Errorf("the field %s is required", soleKey)
	}
	var inner string
	if f.isText && json.Unmarshal(fields[soleKey], &inner) == nil && json.Valid([]byte(inner)) {
		return json.RawMessage(inner), nil
	}
	return fields[soleKey], nil
}

// flat returns the schema of an object whose properties MCP permits.
func flat(schema map[string]any) (map[string]any, bool) {
	properties, ok := schema["properties"].(map[string]any)
	if schema["type"] != "object" || !ok {
		return nil, false
	}
	fields := map[string]any{}
	for name, p := range properties {
		is, ok := p.(map[string]any)
		if !ok {
			return nil, false
		}
		if fields[name], ok = field(is); !ok {
			return nil, false
		}
	}
	var required []string
	list, _ := schema["required"].([]any)
	for _, name := range list {
		text, ok := name.(string)
		if _, there := fields[text]; !ok || !there {
			return nil, false
		}
		required = append(required, text)
	}
	return object(fields, required), true
}

// keywords are those that MCP permits for each type, besides those of choices.
var keywords = map[string][]string{
	"string":  {"minLength", "maxLength"},
	"number":  {"minimum", "maximum"},
	"integer": {"minimum", "maximum"},
	"boolean": {},
	"array":   {"minItems", "maxItems"},
}

// field returns the schema of one field.
func field(schema map[string]any) (map[string]any, bool) {
	kind, _ := schema["type"].(string)
	if _, is := schema["enum"]; is && schema["type"] == nil {
		kind = "string"
	}
	names, ok := keywords[kind]
	if !ok {
		return nil, false
	}
	out := map[string]any{"type": kind}
	for _, name := range []string{"title", "description"} {
		if text, ok := schema[name].(string); ok {
			out[name] = clean(text)
		}
	}
	for _, name := range names {
		if n, ok := schema[name].(float64); ok {
			out[name] = n
		}
	}
	switch v := schema["default"].(type) {
	case string, float64, bool:
		out["default"] = v
	}
	if format, ok := schema["format"].(string); ok && kind == "string" && slices.Contains([]string{"email", "uri", "date", "date-time"}, format) {
		out["format"] = format
	}
	return out, choices(schema, out)
}

// choices copies the options of a field. It reports false if they are not strings, or an array has none.
func choices(schema, out map[string]any) bool {
	if out["type"] == "array" {
		items, ok := schema["items"].(map[string]any)
		if !ok || items["enum"] == nil && items["anyOf"] == nil {
			return false
		}
		out["items"] = map[string]any{"anyOf": items["anyOf"]}
		if items["enum"] != nil {
			out["items"] = map[string]any{"type": "string", "enum": items["enum"]}
		}
		return areTexts(items["enum"]) && areTitled(items["anyOf"])
	}
	for _, name := range []string{"enum", "enumNames", "oneOf"} { // enumNames is deprecated
		if v, ok := schema[name]; ok {
			out[name] = v
		}
	}
	_, hasOther := schema["anyOf"]
	return !hasOther && areTexts(out["enum"]) && areTexts(out["enumNames"]) && areTitled(out["oneOf"]) && (out["type"] == "string" || out["enum"] == nil && out["oneOf"] == nil)
}

// areTexts reports whether v is absent or a list of strings.
func areTexts(v any) bool {
	list, ok := v.([]any)
	return v == nil || ok && !slices.ContainsFunc(list, func(v any) bool { _, is := v.(string); return !is })
}

// areTitled reports whether v is absent or a list of options with a value and a title.
func areTitled(v any) bool {
	list, ok := v.([]any)
	return v == nil || ok && !slices.ContainsFunc(list, func(v any) bool {
		option, _ := v.(map[string]any)
		value, hasValue := option["const"].(string)
		_, hasTitle := option["title"].(string)
		return !hasValue || !hasTitle || value == ""
	})
}
