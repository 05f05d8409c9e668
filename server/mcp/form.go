package mcpserver

import (
	"encoding/json"
	"fmt"
	"slices"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A ticket has the questions of a suspension, each by its key. If hasParts is set, the result of the suspension is an object with one member
// for each answer.
type ticket struct {
	forms    map[string]form
	hasParts bool
}

// A form is one question. MCP permits only an object of strings, numbers, booleans and choices. For any other schema, the form has an
// object with a single field. This field holds the value directly if MCP permits its type, and otherwise as JSON text.
type form struct {
	message string
	schema  map[string]any
	isBare  bool // the result is the value of the single field, not the object
	isText  bool // the single field holds JSON text
	isEmpty bool // the question accepts no result; accepting or declining is the whole answer
}

// soleKey is the key of the only question of a ticket, and the name of its field if the answer is not an object.
const soleKey = "answer"

// ticketOf returns the questions of a suspension. If the answer is an object and a form can ask for each of its properties, each property
// becomes a question. ticketOf drops schema keywords that MCP does not permit. This loses nothing: the daemon checks the answer against the
// whole schema, and the client is asked again when the answer does not match.
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

// partsOf returns a form for each property of a schema. It returns nil if there is a property for which MCP permits no form.
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

// content returns the result, as JSON text, for an accepted answer.
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

// flat returns the schema of an object if MCP permits each of its properties.
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

// keywords lists the keywords that MCP permits for each type, except those for choices.
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

// choices copies the options of a field. It returns false if an option is not a string, or if an array has no options.
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
	for _, name := range []string{"enum", "enumNames", "oneOf"} { // MCP still permits the deprecated enumNames.
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
