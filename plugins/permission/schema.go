package permission

import (
	"encoding/json"
	"slices"
	"strings"
)

// hasPlace reports whether arguments that meet a schema may have something at a place that the schema knows of.
func hasPlace(parameters json.RawMessage, at place) bool {
	var root any
	if len(parameters) == 0 || json.Unmarshal(parameters, &root) != nil {
		return false
	}
	w := schemaWalk{root: root, steps: 10_000}
	return w.has(root, at)
}

// A schemaWalk looks for a place. References may go round in circles, which is why its steps are counted.
type schemaWalk struct {
	root  any
	steps int
}

func (w *schemaWalk) has(schema any, at place) bool {
	if w.steps--; schema == false {
		return false
	}
	s, isObject := schema.(map[string]any)
	if !isObject || len(at) == 0 || w.steps < 0 {
		return true
	}
	var elsewhere bool // other members say what there is
	if ref, ok := s["$ref"].(string); ok {
		target, found := w.resolve(ref)
		if !found || w.has(target, at) {
			return true
		}
		elsewhere = true
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		elsewhere = elsewhere || len(list) > 0
		if slices.ContainsFunc(list, func(one any) bool { return w.has(one, at) }) {
			return true
		}
	}
	for _, key := range []string{"then", "else"} {
		if one, ok := s[key].(map[string]any); ok && w.has(one, at) {
			return true
		}
	}
	if at[0].name != "" {
		return w.hasMember(s, at, elsewhere)
	}
	return w.hasElement(s, at, elsewhere)
}

func (w *schemaWalk) hasMember(s map[string]any, at place, elsewhere bool) bool {
	properties, _ := s["properties"].(map[string]any)
	if one, ok := properties[at[0].name]; ok {
		return w.has(one, at[1:])
	}
	if patterns, _ := s["patternProperties"].(map[string]any); len(patterns) > 0 {
		return true
	}
	switch rest := s["additionalProperties"].(type) {
	case map[string]any:
		return w.has(rest, at[1:])
	case bool:
		return rest && len(properties) == 0 && !elsewhere
	}
	return len(properties) == 0 && !elsewhere && mayBe(s, "object")
}

func (w *schemaWalk) hasElement(s map[string]any, at place, elsewhere bool) bool {
	if list, ok := s["prefixItems"].([]any); ok {
		if !at[0].all && at[0].index < len(list) {
			return w.has(list[at[0].index], at[1:])
		}
		if at[0].all && slices.ContainsFunc(list, func(one any) bool { return w.has(one, at[1:]) }) {
			return true
		}
	}
	if items, ok := s["items"]; ok {
		return w.has(items, at[1:])
	}
	return !elsewhere && mayBe(s, "array")
}

// mayBe reports whether a schema without further words allows values of a kind.
func mayBe(s map[string]any, kind string) bool {
	switch t := s["type"].(type) {
	case string:
		return t == kind
	case []any:
		return slices.Contains(t, any(kind))
	}
	return s["properties"] == nil && s["items"] == nil && s["enum"] == nil && s["const"] == nil
}

// resolve follows a reference within the schema.
func (w *schemaWalk) resolve(ref string) (any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	at := w.root
	for _, step := range strings.Split(pointer, "/")[1:] {
		object, _ := at.(map[string]any)
		next, ok := object[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		if !ok {
			return nil, false
		}
		at = next
	}
	return at, true
}
