package export

import (
	"fmt"
	"slices"
	"strings"
)

// The limits of strict mode that OpenAI publishes.
const (
	strictDepth   = 10
	strictMembers = 5000
	strictChoices = 1000
	strictText    = 120_000 // bytes of names and enum values in total
)

var (
	strictKeywords = []string{
		"type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const",
		"pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
	}
	strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

// A strict conversion makes a schema strict.
type strict struct {
	*conversion
	members, choices, text int
}

// A looseError says why a schema has no strict form.
type looseError struct{ at, why string }

func (e *looseError) Error() string { return e.at + ": " + e.why }

// schema makes o strict: objects are closed, every property is required, and optional properties accept null. It fails when strict mode
// would exclude values that a call may need.
func (s *strict) schema(o *object, at string, depth int) error {
	if depth > strictDepth {
		return &looseError{at, fmt.Sprintf("is deeper than %d levels", strictDepth)}
	}
	s.spread(o, at)
	if branches := o.list("anyOf"); branches != nil {
		for _, b := range branches {
			if err := s.schema(b.(*object), at, depth+1); err != nil {
				return err
			}
		}
		s.drop(o, at, "anyOf", "title", "description")
		return nil
	}
	if err := s.shape(o, at); err != nil {
		return err
	}
	if f := o.text("format"); f != "" && !slices.Contains(strictFormats, f) {
		s.describe(o, at, "format")
	}
	if f := o.text("pattern"); strings.Contains(f, "(?") {
		s.describe(o, at, "pattern") // OpenAI refuses some patterns, mostly those with lookarounds, which begin with "(?".
	}
	s.drop(o, at, strictKeywords...)
	if !isType(o, "object") { // These members do not constrain other values, but in strict mode they would require a closed object.
		for _, name := range []string{"properties", "required", "additionalProperties"} {
			o.take(name)
		}
	}
	if isType(o, "array") {
		if o.object("items") == nil {
			return &looseError{at, "is a list of any values"}
		}
		if err := s.schema(o.object("items"), join(at, "*"), depth+1); err != nil {
			return err
		}
	}
	if isType(o, "object") {
		return s.object(o, at, depth)
	}
	return s.within(at)
}

// shape sets a missing type. It returns an error for a schema that has no strict form.
func (s *strict) shape(o *object, at string) error {
	values := o.list("enum")
	if o.has("const") {
		values = []any{o.get("const")}
	}
	for _, v := range values {
		switch v.(type) {
		case *object, []any:
			return &looseError{at, "has an enum of objects or lists"}
		}
		s.text += len(compact(v))
	}
	s.choices += len(values)
	if !o.has("type") {
		switch {
		case len(values) > 0:
			o.set("type", oneOrAll(typesOf(values)))
		case o.has("properties"):
			o.set("type", "object")
		default:
			return &looseError{at, "accepts any value"}
		}
	}
	switch {
	case o.has("prefixItems"):
		return &looseError{at, "is a list with a type for each position"}
	case impossible(o):
		return &looseError{at, "accepts no value"}
	}
	return nil
}

func typesOf(values []any) []any {
	var out []any
	for _, v := range values {
		name := typeOf(v)
		if name == "number" && isWhole(v) {
			name = "integer"
		}
		if !contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// object closes an object and requires all its properties.
func (s *strict) object(o *object, at string, depth int) error {
	properties := o.object("properties")
	if properties == nil {
		properties = &object{}
	}
	if len(properties.members) == 0 && o.get("additionalProperties") != false {
		return &looseError{at, "is an object with free names"}
	}
	if more := o.get("additionalProperties"); more != nil && more != false {
		s.notes.add(at, "other members than the properties cannot be sent")
	}
	required := o.list("required")
	all := make([]any, 0, len(properties.members))
	for _, m := range properties.members {
		below := join(at, m.name)
		child := m.value.(*object)
		if err := s.schema(child, below, depth+1); err != nil {
			return err
		}
		if !contains(required, m.name) && !nullable(child) {
			properties.set(m.name, orNull(child))
			s.nulls = append(s.nulls, below)
		}
		all = append(all, m.name)
		s.text += len(m.name)
	}
	s.members += len(all)
	o.set("properties", properties)
	o.set("required", all)
	o.set("additionalProperties", false)
	return s.within(at)
}

func (s *strict) within(at string) error {
	if s.members > strictMembers || s.choices > strictChoices || s.text > strictText {
		return &looseError{at, "exceeds the size of a strict schema"}
	}
	return nil
}

// drop describes and removes every keyword that is not in kept.
func (p *conversion) drop(o *object, at string, kept ...string) {
	p.describe(o, at, slices.DeleteFunc(memberNames(o), func(name string) bool { return slices.Contains(kept, name) })...)
}

func nullable(o *object) bool {
	switch {
	case o.has("anyOf"):
		return slices.ContainsFunc(o.list("anyOf"), func(v any) bool { return nullable(v.(*object)) })
	case o.has("const"):
		return o.get("const") == nil
	case o.has("enum") && !contains(o.list("enum"), nil):
		return false
	}
	return isType(o, "null")
}

// orNull returns a schema that also allows null.
func orNull(o *object) *object {
	switch {
	case o.has("anyOf"):
		o.set("anyOf", append(o.list("anyOf"), obj("type", "null")))
		return o
	case o.has("const"):
		o.set("enum", []any{o.take("const"), nil})
	case o.has("enum"):
		if !contains(o.list("enum"), nil) {
			o.set("enum", append(slices.Clone(o.list("enum")), nil))
		}
	}
	if !isType(o, "null") {
		o.set("type", append(slices.Clone(types(o.get("type"))), "null"))
	}
	return o
}
