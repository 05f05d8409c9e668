package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A pair is key=value, or key:=json.
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

// ArgumentsOf makes the JSON text of an object out of pairs, each value typed by the schema of its property. A key that
// stands several times makes a list, when the schema wants one. Whether the whole is valid is the daemon's to say.
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
			return "", Usagef("%q stands twice", p.key)
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

// propertiesOf returns the schemas of an object's properties; none when the schema has none to name.
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

// shape is what of a schema says how to read a word.
type shape struct {
	Type  types    `json:"type"`
	Items *shape   `json:"items"`
	Enum  []any    `json:"enum"`
	Const any      `json:"const"`
	AnyOf []*shape `json:"anyOf"`
	OneOf []*shape `json:"oneOf"`
	Ref   string   `json:"$ref"`
}

// types is a name or a list of names.
type types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *types) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// UnmarshalJSON implements json.Unmarshaler; true and false are schemas that say nothing, and so is what is no schema.
func (s *shape) UnmarshalJSON(raw []byte) error {
	type fields shape
	_ = json.Unmarshal(raw, (*fields)(s))
	return nil
}

// resolve follows local references and gathers the alternatives, of s and to that depth of its items: schemas may be
// recursive.
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

// kinds are the types that a word may be; a schema that names none takes text, or what its enum holds.
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

// json is the value as JSON text. list says that it is one element of a list.
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

// word reads one value. Where text is allowed it is text, so that 007 and true stay what was typed; := says other.
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
	return "", fmt.Errorf("%s: %q is no %s", key, value, strings.Join(kinds, " or "))
}

// isNumber reports whether s is a number as JSON writes it. Its text travels as it is.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

// quote writes a string as JSON, without the escapes that HTML would need.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // no string fails
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// answerOf makes the JSON text of an answer: pairs for an object, elements for a list, else the words as one value. What
// the schema leaves open is JSON when it reads as JSON, and text otherwise.
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
