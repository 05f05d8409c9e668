package turn

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/toold-dev/toold/call"
)

// RemoveNulls removes the nulls that strict mode added to the arguments of a call. In strict mode a model must send every property. To omit
// an optional property, it sends null, even if the tool's schema does not accept null. RemoveNulls removes such properties and leaves all
// other bytes unchanged. It reports whether it removed anything.
//
// schema is the tool's own schema. If the meaning of a null is not certain, as in an object that could match several alternatives,
// RemoveNulls keeps the null. It keeps all nulls when the schema has no strict form, or when the schema contains a keyword that this file
// does not interpret. An error means that the schema or the arguments do not parse.
func RemoveNulls(schema []byte, arguments string) (string, bool, error) {
	if len(schema) == 0 {
		return arguments, false, nil
	}
	v, err := call.ParseJSON(string(schema), 0)
	if err != nil {
		return arguments, false, fmt.Errorf("schema: %w", err)
	}
	if strings.TrimSpace(arguments) == "" {
		return arguments, false, nil
	}
	if _, err := call.ParseJSON(arguments, 0); err != nil {
		return arguments, false, err
	}
	s := &strictSchema{root: v}
	whole := s.arguments(v)
	if whole == nil || !s.object(whole, 1) {
		return arguments, false, nil
	}
	s.walk(rootOf(arguments), whole)
	if len(s.cuts) == 0 {
		return arguments, false, nil
	}
	return splice(arguments, s.cuts), true, nil
}

// splice returns the text without the given ranges.
func splice(text string, cuts [][2]int) string {
	slices.SortFunc(cuts, func(a, b [2]int) int { return a[0] - b[0] })
	var b strings.Builder
	from := 0
	for _, c := range cuts {
		b.WriteString(text[from:c[0]])
		from = c[1]
	}
	b.WriteString(text[from:])
	return b.String()
}

// The limits of strict mode. None of them is higher than the same limit in registry/export.
const (
	strictDepth   = 10
	strictNodes   = 1000
	strictChoices = 1000
	strictText    = 100_000
)

// A strictSchema is a schema that registry/export can make strict. Its methods return false when they are not certain.
type strictSchema struct {
	root                 any
	nodes, choices, text int
	cuts                 [][2]int
}

// hard lists the keywords that this file does not interpret. A schema with one of them counts as a schema without a strict form.
var hard = []string{
	"not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies", "patternProperties", "propertyNames", "prefixItems",
	"additionalItems", "contains", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef", "$id", "id", "$anchor",
	"$dynamicAnchor",
}

// notes lists the keywords that do not restrict values. They may appear beside alternatives and references.
var notes = []string{
	"$schema", "$comment", "$defs", "definitions", "title", "description", "default", "deprecated", "readOnly", "writeOnly", "nullable",
}

// objectWords lists the keywords that are allowed in an object with alternatives, and in each of its alternatives.
var objectWords = append([]string{"type", "properties", "required", "additionalProperties"}, notes...)

// arguments returns the schema of the arguments as one object. It returns nil for a schema that this file cannot interpret.
func (s *strictSchema) arguments(v any) map[string]any {
	o := s.resolve(v)
	switch {
	case !isObject(o):
		return nil
	case has(o, "anyOf", "oneOf"):
		return s.flat(o)
	}
	return o
}

// isObject reports whether a resolved schema may describe an object by its properties.
func isObject(o map[string]any) bool {
	return o != nil && !has(o, "enum", "const") && (!has(o, "type") || slices.Contains(typesOf(o), "object"))
}

// flat merges an object and its alternatives into one object, as registry/export does. The merged object has the properties of all
// alternatives. It requires a property when the object or every alternative requires it. For all other properties a null means that the
// property is absent, unless one of the declarations of the property accepts null.
func (s *strictSchema) flat(o map[string]any) map[string]any {
	branches, _ := o["anyOf"].([]any)
	if has(o, "oneOf") {
		branches, _ = o["oneOf"].([]any)
	}
	if len(branches) == 0 || has(o, "anyOf") == has(o, "oneOf") || !only(o, append([]string{"anyOf", "oneOf"}, objectWords...)) {
		return nil
	}
	own, _ := o["properties"].(map[string]any)
	declared, required := map[string][]any{}, map[string]int{} // required counts the alternatives that require a property
	for _, b := range branches {
		r := s.resolve(b)
		if !isObject(r) || !only(r, objectWords) {
			return nil
		}
		properties, _ := r["properties"].(map[string]any)
		for name, p := range properties {
			declared[name] = append(declared[name], p)
		}
		for _, name := range namesOf(r) {
			if required[name]++; !has(properties, name) {
				declared[name] = append(declared[name], anyValue) // as registry/export does
			}
		}
	}
	merged, ok := s.mergeProperties(own, declared)
	if !ok {
		return nil
	}
	names, _ := o["required"].([]any)
	names = slices.Clone(names)
	for name, n := range required {
		if n == len(branches) {
			names = append(names, name)
		}
	}
	out := map[string]any{"type": "object", "properties": merged, "required": names}
	if more, ok := o["additionalProperties"]; ok {
		out["additionalProperties"] = more
	}
	return out
}

// anyValue is the schema of a property that an alternative requires but does not declare.
var anyValue = map[string]any{}

// mergeProperties returns the properties of an object and of its alternatives. For a property with several declarations it returns their
// alternatives. It returns false when registry/export may merge two declarations into a schema without a strict form.
func (s *strictSchema) mergeProperties(own map[string]any, declared map[string][]any) (map[string]any, bool) {
	merged := maps.Clone(own)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, list := range declared {
		for _, p := range list {
			s.nodes += 3
			if p == false {
				return nil, false
			}
		}
		if p, both := own[name]; both && p != false && !slices.ContainsFunc(list, func(p any) bool { return !reflect.DeepEqual(p, anyValue) }) {
			continue // no alternative adds a condition
		} else if both {
			list = append(list, p)
			if slices.ContainsFunc(list, func(p any) bool { return !s.isText(p) }) {
				return nil, false
			}
		}
		merged[name] = list[0]
		if slices.ContainsFunc(list, func(p any) bool { return !reflect.DeepEqual(p, list[0]) }) {
			merged[name] = map[string]any{"anyOf": list}
		}
	}
	return merged, true
}

// isText reports whether a schema describes only texts.
func (s *strictSchema) isText(v any) bool {
	o := s.resolve(v)
	return o != nil && !has(o, "anyOf", "oneOf", "properties", "items") &&
		!slices.ContainsFunc(typesOf(o), func(t string) bool { return t != "string" }) &&
		!slices.ContainsFunc(choicesOf(o), func(c any) bool { _, text := c.(string); return !text })
}

func namesOf(o map[string]any) (names []string) {
	list, _ := o["required"].([]any)
	for _, name := range list {
		if name, ok := name.(string); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// resolve follows references, and an allOf with one schema. It returns nil for a schema that this file cannot interpret.
func (s *strictSchema) resolve(v any) map[string]any {
	for range strictDepth {
		o, ok := v.(map[string]any)
		if !ok || has(o, hard...) {
			return nil
		}
		all, both := o["allOf"].([]any)
		ref, isRef := o["$ref"].(string)
		switch {
		case !isRef && !both && !has(o, "$ref", "allOf"):
			return o
		case !only(o, append([]string{"$ref", "allOf"}, notes...)) || isRef == both || both && len(all) != 1:
			return nil
		case both:
			v = all[0]
		default:
			v = s.target(ref)
		}
	}
	return nil
}

// target returns the schema that a reference of the form #/… names.
func (s *strictSchema) target(ref string) any {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok || strings.Contains(pointer, "%") {
		return nil
	}
	v := s.root
	for name := range strings.SplitSeq(pointer, "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch node := v.(type) {
		case map[string]any:
			v = node[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(node) {
				return nil
			}
			v = node[i]
		default:
			return nil
		}
	}
	return v
}

// schema reports whether a schema below the root has a strict form.
func (s *strictSchema) schema(v any, depth int) bool {
	s.nodes += 3 // registry/export counts a schema up to three times if it is a reference.
	o := s.resolve(v)
	if o == nil || depth > strictDepth || s.nodes > strictNodes {
		return false
	}
	if has(o, "anyOf", "oneOf") {
		branches := alternatives(o)
		return len(branches) > 0 && !slices.ContainsFunc(branches, func(b any) bool { return !s.schema(b, depth+1) })
	}
	values := choicesOf(o)
	for _, c := range values {
		s.text += len(call.AppendCanonical(nil, c))
		switch c := c.(type) {
		case map[string]any, []any:
			return false
		case json.Number:
			if !has(o, "type") || len(c) > 15 {
				return false // For such a number, registry/export may move the values from enum into the description. If the schema has no type either, it is then empty.
			}
		}
	}
	s.choices += len(values)
	t := typesOf(o)
	switch {
	case s.choices > strictChoices || s.text > strictText:
		return false
	case !has(o, "type"):
		return len(values) > 0 && !has(o, "properties", "items") || len(values) == 0 && has(o, "properties") && s.object(o, depth)
	case len(t) == 0:
		return false
	case slices.Contains(t, "array") && !s.schema(o["items"], depth+1):
		return false
	}
	return !slices.Contains(t, "object") || s.object(o, depth)
}

// object reports whether an object's schema has a strict form.
func (s *strictSchema) object(o map[string]any, depth int) bool {
	properties, _ := o["properties"].(map[string]any)
	required, ok := o["required"].([]any)
	if has(o, "required") && !ok {
		return false
	}
	for _, name := range required {
		if name, ok := name.(string); !ok || properties[name] == nil || properties[name] == false {
			return false
		}
	}
	open := o["additionalProperties"] != false
	for name, p := range properties {
		if p == false {
			continue // registry/export omits a property that must be absent.
		}
		open = false
		s.text += len(name)
		if !s.schema(p, depth+1) {
			return false
		}
	}
	return !open && s.text <= strictText // An object that declares no property but allows any has no strict form.
}

// walk records which nulls must be removed from the value n. schema is the schema of n.
func (s *strictSchema) walk(n node, schema any) {
	o := s.resolve(schema)
	if o == nil || n.kind() != '{' && n.kind() != '[' {
		return
	}
	if has(o, "anyOf", "oneOf") {
		if fit := s.fitting(o, n.kind()); len(fit) == 1 {
			s.walk(n, fit[0])
		}
		return
	}
	if n.kind() == '[' {
		for item := range n.items() {
			s.walk(item, o["items"])
		}
		return
	}
	properties, _ := o["properties"].(map[string]any)
	required, _ := o["required"].([]any)
	var members []member
	var drop []bool
	for m, v := range n.members() {
		p, declared := properties[m.name]
		dropped := declared && v.absent() && !slices.Contains(required, any(m.name)) && s.rejectsNull(p)
		members, drop = append(members, m), append(drop, dropped)
		if declared && !dropped {
			s.walk(v, p)
		}
	}
	s.cut(members, drop)
}

// fitting returns the alternatives that may accept an object or an array.
func (s *strictSchema) fitting(o map[string]any, kind byte) []any {
	want := map[byte]string{'{': "object", '[': "array"}[kind]
	var fit []any
	for _, b := range alternatives(o) {
		r := s.resolve(b)
		switch {
		case has(r, "anyOf", "oneOf"):
			fit = append(fit, s.fitting(r, kind)...)
		case !has(r, "type") && choicesOf(r) == nil, slices.Contains(typesOf(r), want):
			fit = append(fit, b)
		}
	}
	return fit
}

// rejectsNull reports whether a schema certainly rejects null. It returns false for the schema false, which rejects every value.
func (s *strictSchema) rejectsNull(v any) bool {
	o := s.resolve(v)
	switch {
	case o == nil:
		return false
	case has(o, "anyOf", "oneOf"):
		return !slices.ContainsFunc(alternatives(o), func(b any) bool { return !s.rejectsNull(b) })
	case has(o, "type") && !slices.Contains(typesOf(o), "null"):
		return true
	}
	values := choicesOf(o)
	return len(values) > 0 && !slices.Contains(values, nil)
}

// cut records the text ranges of the members to drop. Each range includes one comma.
func (s *strictSchema) cut(members []member, drop []bool) {
	last := len(drop) // all members from this index on are dropped
	for last > 0 && drop[last-1] {
		last--
	}
	for i := range last {
		if drop[i] {
			s.cuts = append(s.cuts, [2]int{members[i].from, members[i+1].from})
		}
	}
	switch end := len(members); {
	case last == end:
	case last == 0:
		s.cuts = append(s.cuts, [2]int{members[0].from, members[end-1].to})
	default:
		s.cuts = append(s.cuts, [2]int{members[last-1].to, members[end-1].to})
	}
}

// alternatives returns the branches of anyOf or oneOf, or nil when other keywords apply beside them.
func alternatives(o map[string]any) []any {
	if !only(o, append([]string{"anyOf", "oneOf"}, notes...)) || has(o, "anyOf") == has(o, "oneOf") {
		return nil
	}
	list, _ := o["anyOf"].([]any)
	if has(o, "oneOf") {
		list, _ = o["oneOf"].([]any)
	}
	return list
}

// choicesOf returns the values of enum or const.
func choicesOf(o map[string]any) []any {
	if has(o, "const") {
		return []any{o["const"]}
	}
	list, _ := o["enum"].([]any)
	return list
}

func typesOf(o map[string]any) []string {
	if name, ok := o["type"].(string); ok {
		return []string{name}
	}
	var names []string
	list, _ := o["type"].([]any)
	for _, t := range list {
		if name, ok := t.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func has(o map[string]any, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := o[name]; return ok })
}

func only(o map[string]any, names []string) bool {
	for name := range o {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}
