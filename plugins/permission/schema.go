package permission

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/toold-dev/toold/call"
)

// hasPath reports whether a schema allows a value at a path and describes it.
func hasPath(root any, at argPath) bool {
	w := schemaWalk{root: root, steps: maxSchemaSteps}
	return root != nil && w.has(root, at)
}

const maxSchemaSteps = 10_000

// schemaOf parses a schema and keeps the tokens of its numbers. It returns nil for invalid JSON.
func schemaOf(parameters json.RawMessage) any {
	root, err := call.ParseJSON(string(parameters), 0)
	if err != nil {
		return nil
	}
	return root
}

// A schemaWalk looks for a path in a schema. It counts its steps, because references may form a cycle.
type schemaWalk struct {
	root  any
	steps int
	is    []string // descriptions of the values at the path, when they cannot meet a claim
}

func (w *schemaWalk) has(schema any, at argPath) bool {
	if w.steps--; schema == false {
		return false
	}
	s, isObject := schema.(map[string]any)
	if !isObject || len(at) == 0 || w.steps < 0 {
		return true
	}
	var elsewhere bool // a keyword other than properties and items also describes the value
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

func (w *schemaWalk) hasMember(s map[string]any, at argPath, elsewhere bool) bool {
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

func (w *schemaWalk) hasElement(s map[string]any, at argPath, elsewhere bool) bool {
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

// may reports whether arguments that are valid for a schema may meet a claim. When the schema does not show that, it returns true.
func (w *schemaWalk) may(schema any, at argPath, c *claim) bool {
	if w.steps--; schema == false {
		return false
	}
	s, isObject := schema.(map[string]any)
	if !isObject || w.steps < 0 {
		return true
	}
	may := func(one any) bool { return w.may(one, at, c) }
	if ref, ok := s["$ref"].(string); ok {
		if target, found := w.resolve(ref); found && !may(target) {
			return false
		}
	}
	all, _ := s["allOf"].([]any)
	for _, one := range all {
		if !may(one) {
			return false
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list, _ := s[key].([]any); len(list) > 0 && !slices.ContainsFunc(list, may) {
			return false
		}
	}
	if len(at) > 0 {
		return w.mayBelow(s, at, c)
	}
	if !c.meets(s) {
		w.is = append(w.is, described(s))
		return false
	}
	return true
}

// mayBelow does the same as the method may, for a path inside a member or element of s.
func (w *schemaWalk) mayBelow(s map[string]any, at argPath, c *claim) bool {
	if at[0].name != "" {
		properties, _ := s["properties"].(map[string]any)
		if one, ok := properties[at[0].name]; ok {
			return w.may(one, at[1:], c)
		}
		return s["patternProperties"] != nil || w.may(s["additionalProperties"], at[1:], c)
	}
	list, _ := s["prefixItems"].([]any)
	if !at[0].all && at[0].index < len(list) {
		return w.may(list[at[0].index], at[1:], c)
	}
	return at[0].all && slices.ContainsFunc(list, func(one any) bool { return w.may(one, at[1:], c) }) || w.may(s["items"], at[1:], c)
}

// mayBe reports whether the type of a schema allows values of a kind.
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
