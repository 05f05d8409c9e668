package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A pair is one key=value or key:=json argument.
type pair struct {
	key, value string
	raw        bool
}

func splitPair(text string) (pair, bool) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return pair{}, false
	}
	if name, raw := strings.CutSuffix(key, ":"); raw && name != "" {
		return pair{name, value, true}, true
	}
	return pair{key, value, false}, true
}

// ArgumentsOf builds the JSON text of an object from pairs. The schema of each property determines the type of its value. If the schema of
// a key is an array, each value of the key becomes an element. The daemon validates the result against the whole schema.
func ArgumentsOf(words []string, schema string) (string, error) {
	properties := propertiesOf(schema)
	type member struct {
		raw  []string
		list bool
	}
	members := map[string]*member{}
	var order []string
	for _, word := range words {
		p, ok := splitPair(word)
		if !ok {
			return "", Usagef("%q is neither key=value nor key:=json", word)
		}
		raw, list, err := p.json(properties)
		if err != nil {
			return "", usageError{err}
		}
		m := members[p.key]
		if m == nil {
			m = &member{list: list}
			members[p.key] = m
			order = append(order, p.key)
		} else if !m.list || !list {
			return "", Usagef("%q is set twice", p.key)
		}
		m.raw = append(m.raw, raw)
	}
	var b strings.Builder
	b.WriteString("{")
	for i, key := range order {
		if i > 0 {
			b.WriteString(",")
		}
		value := members[key].raw[0]
		if members[key].list {
			value = "[" + strings.Join(members[key].raw, ",") + "]"
		}
		b.WriteString(quote(key) + ":" + value)
	}
	return b.String() + "}", nil
}

// propertiesOf returns the schemas of the object's properties. It returns nil when the schema names none.
func propertiesOf(schema string) map[string]*shape {
	var s struct {
		Properties map[string]*shape `json:"properties"`
		Defs       map[string]*shape `json:"$defs"`
		OldDefs    map[string]*shape `json:"definitions"`
	}
	if json.Unmarshal([]byte(schema), &s) != nil {
		return nil
	}
	for _, p := range s.Properties {
		p.resolve(2, s.Defs, s.OldDefs)
	}
	return s.Properties
}

// shape holds the parts of a schema that determine how a word is converted to JSON.
type shape struct {
	Type  types    `json:"type"`
	Items *shape   `json:"items"`
	Enum  []any    `json:"enum"`
	Const any      `json:"const"`
	AnyOf []*shape `json:"anyOf"`
	OneOf []*shape `json:"oneOf"`
	Ref   string   `json:"$ref"`
}

// types is the "type" keyword of a schema: one name or a list of names.
type types []string

// UnmarshalJSON accepts a string or a list of strings.
func (t *types) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// UnmarshalJSON accepts any JSON value. A boolean schema, or a value that is not a schema, leaves all fields empty.
func (s *shape) UnmarshalJSON(raw []byte) error {
	type fields shape
	_ = json.Unmarshal(raw, (*fields)(s))
	return nil
}

// resolve follows local references and collects the alternatives (anyOf, oneOf) of s. It does the same for the items of s, to the given
// depth, because schemas may be recursive.
func (s *shape) resolve(depth int, defs ...map[string]*shape) {
	if s == nil || depth == 0 {
		return
	}
	name := s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	for _, d := range defs {
		if target := d[name]; target != nil && strings.HasPrefix(s.Ref, "#/") {
			s.Type, s.Items, s.Enum = target.Type, target.Items, target.Enum
			s.AnyOf, s.OneOf = target.AnyOf, target.OneOf
		}
	}
	for _, alternative := range slices.Concat(s.AnyOf, s.OneOf) {
		if alternative != nil {
			s.Type = append(s.Type, alternative.Type...)
			s.Enum = append(s.Enum, alternative.Enum...)
			if s.Items == nil {
				s.Items = alternative.Items
			}
		}
	}
	if s.Const != nil {
		s.Enum = append(s.Enum, s.Const)
	}
	s.Items.resolve(depth-1, defs...)
}

// kinds returns the JSON types that a word may have. If the schema names no type, they are the types of its enum values. Without these the
// result is empty, which means a string.
func (s *shape) kinds() []string {
	if s == nil {
		return nil
	}
	if len(s.Type) > 0 {
		return s.Type
	}
	var kinds []string
	for _, e := range s.Enum {
		switch e.(type) {
		case string:
			kinds = append(kinds, "string")
		case float64:
			kinds = append(kinds, "number")
		case bool:
			kinds = append(kinds, "boolean")
		}
	}
	return kinds
}

// json returns the value as JSON text. list reports that the value is one element of a list.
func (p pair) json(properties map[string]*shape) (raw string, list bool, err error) {
	if p.raw {
		if !json.Valid([]byte(p.value)) {
			return "", false, fmt.Errorf("%s: %q is not JSON", p.key, p.value)
		}
		return p.value, false, nil
	}
	kinds := properties[p.key].kinds()
	if slices.Contains(kinds, "array") && !slices.Contains(kinds, "string") {
		raw, err := word(p.key, p.value, properties[p.key].Items.kinds())
		return raw, true, err
	}
	raw, err = word(p.key, p.value, kinds)
	return raw, false, err
}

// word converts one value to JSON text. If the schema allows a string, the value becomes a string, so that 007 and true stay as typed. The
// user writes := for another type.
func word(key, value string, kinds []string) (string, error) {
	if len(kinds) == 0 || slices.Contains(kinds, "string") {
		return quote(value), nil
	}
	for _, kind := range kinds {
		switch {
		case (kind == "number" || kind == "integer") && isNumber(value),
			kind == "boolean" && (value == "true" || value == "false"),
			kind == "null" && value == "null":
			return value, nil
		}
	}
	if slices.Contains(kinds, "object") || slices.Contains(kinds, "array") {
		return "", fmt.Errorf("%s wants JSON; write %s:='…'", key, key)
	}
	return "", fmt.Errorf("%s: %q is not a valid %s", key, value, strings.Join(kinds, " or "))
}

// isNumber reports whether s is a JSON number. The caller sends its text unchanged.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

// quote returns s as a JSON string, without the HTML escapes of json.Marshal.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// answerOf builds the JSON text of an answer: pairs for an object, elements for an array, otherwise all words as one value. If the schema
// allows any type, words that are valid JSON stay JSON and other words become a string.
func answerOf(words []string, schema string) (string, error) {
	root := shape{}
	if schema != "" && json.Unmarshal([]byte(schema), &root) != nil {
		return "", Usagef("the response schema is not JSON; give the answer with --json")
	}
	root.resolve(2)
	kinds := root.kinds()
	text := strings.Join(words, " ")
	switch {
	case slices.Contains(kinds, "string"):
		return quote(text), nil
	case slices.Contains(kinds, "array"):
		elements := make([]string, len(words))
		for i, w := range words {
			raw, err := word("answer", w, root.Items.kinds())
			if err != nil {
				return "", usageError{err}
			}
			elements[i] = raw
		}
		return "[" + strings.Join(elements, ",") + "]", nil
	case slices.Contains(kinds, "object"):
		return ArgumentsOf(words, schema)
	case len(kinds) > 0:
		raw, err := word("answer", text, kinds)
		if err != nil {
			return "", usageError{err}
		}
		return raw, nil
	}
	if json.Valid([]byte(text)) {
		return text, nil
	}
	if _, isPair := splitPair(words[0]); isPair {
		return ArgumentsOf(words, schema)
	}
	return quote(text), nil
}

func readAtMost(r io.Reader, most int) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if len(text) > most {
		return "", Usagef("standard input has more than %d bytes", most)
	}
	return string(text), nil
}
