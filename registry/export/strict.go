package export

import (
	"fmt"
	"slices"
	"strings"
)

// What strict mode takes, as OpenAI publishes it.
const (
	strictDepth   = 10
	strictMembers = 5000
	strictChoices = 1000
	strictText    = 120_000 // of names and choices in all
)

var (
	strictKeywords = []string{
		"type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const",
		"pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
	}
	strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

// strict is one schema on its way into strict mode.
type strict struct {
	*pass
	members, choices, text int
}

// A looseError says why a schema has no strict form.
type looseError struct{ at, why string }

func (e *looseError) Error() string { return e.at + ": " + e.why }

// schema makes o strict: objects closed, every property required, what may be missing nullable. It fails for what strict
// mode cannot say without taking values away that a call may need.
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
		s.told(o, at, "format")
	}
	if f := o.text("pattern"); strings.Contains(f, "(?") {
		s.told(o, at, "pattern") // lookarounds above all
	}
	s.drop(o, at, strictKeywords...)
	if !isType(o, "object") { // they say nothing about other values, but strict mode would ask for a closed object
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

// shape makes sure that a schema says what type its values have.
func (s *strict) shape(o *object, at string) error {
	values := o.list("enum")
	if o.has("const") {
		values = []any{o.get("const")}
	}
	for _, v := range values {
		switch v.(type) {
		case *object, []any:
			return &looseError{at, "chooses among objects or lists"}
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
			return &looseError{at, "takes any value"}
		}
	}
	switch {
	case o.has("prefixItems"):
		return &looseError{at, "is a list with a type for each place"}
	case impossible(o):
		return &looseError{at, "takes no value at all"}
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
		s.notes.add(at, "no members beyond the properties can be sent")
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
		return &looseError{at, "is where the schema becomes larger than strict mode takes"}
	}
	return nil
}

// drop tells every keyword that is not among the kept.
func (p *pass) drop(o *object, at string, kept ...string) {
	p.told(o, at, slices.DeleteFunc(memberNames(o), func(name string) bool { return slices.Contains(kept, name) })...)
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

// orNull allows null beside what a schema allows.
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
