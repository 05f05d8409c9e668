package inbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A field is one value that an answer needs.
type field struct {
	name, title string // name is "" when the answer is not an object
	kind        string // string, number, integer, boolean or array; "" means any JSON value
	options     []string
	required    bool
}

// A form asks for an answer field by field.
type form struct {
	fields    []field
	at        int
	complaint string   // what is wrong with the last input
	words     []string // key=value pairs as on the command line, elements of a list, or one word
	schema    string
}

type property struct {
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Type        json.RawMessage `json:"type"`
	Enum        []any           `json:"enum"`
	Const       any             `json:"const"`
	OneOf       []property      `json:"oneOf"`
	AnyOf       []property      `json:"anyOf"`
	Items       *property       `json:"items"`
	Properties  json.RawMessage `json:"properties"`
	Required    []string        `json:"required"`
}

// newForm reads the fields from a response schema. The daemon validates the parts of the schema that the form does not check.
func newForm(schema string) *form {
	f := &form{schema: schema}
	var root property
	_ = json.Unmarshal([]byte(schema), &root) // the schema true, or no schema, allows any answer
	names := memberNames(root.Properties)
	if len(names) == 0 {
		one := root.field("")
		one.required = true
		f.fields = []field{one}
		return f
	}
	var properties map[string]property
	_ = json.Unmarshal(root.Properties, &properties)
	for _, name := range names {
		p := properties[name]
		one := p.field(name)
		one.required = slices.Contains(root.Required, name)
		f.fields = append(f.fields, one)
	}
	return f
}

func (p *property) field(name string) field {
	f := field{name: name, title: p.Title}
	if p.Description != "" {
		f.title = strings.TrimPrefix(f.title+": "+p.Description, ": ")
	}
	var kinds []string
	if json.Unmarshal(p.Type, &kinds) != nil {
		var kind string
		_ = json.Unmarshal(p.Type, &kind)
		kinds = []string{kind}
	}
	if i := slices.IndexFunc(kinds, func(k string) bool { return k != "null" }); i >= 0 {
		f.kind = kinds[i]
	}
	f.options = p.options()
	if p.Items != nil {
		f.options = p.Items.options()
	}
	if f.kind == "" && len(f.options) > 0 {
		f.kind = "string"
	}
	return f
}

// options returns the values that the property allows, as the user types them.
func (p *property) options() (options []string) {
	for _, v := range slices.Concat(p.Enum, constants(p.OneOf), constants(p.AnyOf), constants([]property{*p})) {
		if text, ok := v.(string); ok {
			options = append(options, text)
		} else if raw, err := json.Marshal(v); err == nil {
			options = append(options, string(raw))
		}
	}
	return options
}

func constants(list []property) (values []any) {
	for i := range list {
		if list[i].Const != nil {
			values = append(values, list[i].Const)
		}
	}
	return values
}

// memberNames returns the member names of a JSON object in the order of the text.
func memberNames(object json.RawMessage) (names []string) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		var skipped json.RawMessage
		if err != nil || !ok || d.Decode(&skipped) != nil {
			return nil
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (f *form) field() *field { return &f.fields[f.at] }

// take stores the typed text as the value of the current field. complaint says what is wrong with the text. done reports that this was the
// last field.
func (f *form) take(text string) (complaint string, done bool) {
	now := f.field()
	text = strings.TrimSpace(text)
	if text == "" {
		if now.required && (now.kind != "string" || len(now.options) > 0) {
			return "an answer is required", false
		}
		if !now.required {
			return "", f.next()
		}
	}
	words := []string{text}
	if now.kind == "array" {
		words = nil
		for part := range strings.SplitSeq(text, ",") {
			words = append(words, strings.TrimSpace(part))
		}
	}
	for _, word := range words {
		if complaint := f.word(now, word); complaint != "" {
			return complaint, false
		}
	}
	return "", f.next()
}

// word adds one value. An option may be given by its number or its text. yes and no mean true and false.
func (f *form) word(now *field, word string) string {
	switch {
	case len(now.options) > 0:
		i := slices.Index(now.options, word)
		if i < 0 {
			i = slices.IndexFunc(numbers(len(now.options)), func(n string) bool { return n == word })
		}
		if i < 0 {
			return fmt.Sprintf("choose one of 1 to %d", len(now.options))
		}
		word = now.options[i]
	case now.kind == "boolean":
		switch strings.ToLower(word) {
		case "y", "yes", "true":
			word = "true"
		case "n", "no", "false":
			word = "false"
		default:
			return "type y or n"
		}
	}
	switch {
	case now.name == "":
	case now.kind == "object" || now.kind == "":
		if !json.Valid([]byte(word)) {
			return "that is not JSON"
		}
		word = now.name + ":=" + word
	default:
		word = now.name + "=" + word
	}
	f.words = append(f.words, word)
	return ""
}

func numbers(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i + 1)
	}
	return all
}

func (f *form) next() (done bool) {
	f.at++
	return f.at == len(f.fields)
}

// hint says what the user may type.
func (f *field) hint() string {
	switch {
	case len(f.options) > 0 && f.kind == "array":
		return "numbers, with commas"
	case len(f.options) > 0:
		return "a number"
	case f.kind == "boolean":
		return "y or n"
	case f.kind == "array":
		return "with commas"
	case f.kind == "" || f.kind == "object":
		return "JSON"
	case f.kind == "string":
		return "text"
	}
	return f.kind
}

func quoted(s string) string {
	raw, _ := json.Marshal(s) // a string always encodes
	return string(raw)
}
