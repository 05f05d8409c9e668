package export

import (
	"slices"
	"strings"
)

// arguments returns the root of a tool's schema as a self-contained object schema. No provider supports alternatives or references at the
// root.
func (p *conversion) arguments(schema any) *object {
	o := p.plain(schema, "", 0)
	p.joined(o, "")
	o.set("type", "object")
	for _, name := range []string{"anyOf", "oneOf"} {
		p.flatten(o, name)
	}
	p.describe(o, "", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "enum", "const", "unevaluatedProperties")
	if o.object("properties") == nil {
		o.set("properties", &object{})
	}
	declare(o)
	slices.SortStableFunc(o.members, func(a, b member) int { return rank(a.name) - rank(b.name) })
	return o
}

func rank(name string) int {
	if i := slices.Index([]string{"type", "title", "description", "properties", "required", "additionalProperties"}, name); i >= 0 {
		return i
	}
	return 100
}

// flatten merges alternatives into one object. The object has the properties of all alternatives, and requires the properties that every
// alternative requires. Its description says which properties belong together.
func (p *conversion) flatten(o *object, name string) {
	if !o.has(name) {
		return
	}
	var sets []string
	var always []any
	all := &object{}
	closed := true
	first := true
	for _, b := range types(o.take(name)) {
		branch := b.(*object)
		p.joined(branch, "")
		for _, inner := range []string{"anyOf", "oneOf"} {
			p.flatten(branch, inner)
		}
		if impossible(branch) || branch.has("type") && !isType(branch, "object") {
			continue
		}
		required := branch.list("required")
		if first {
			always, first = slices.Clone(required), false
		} else {
			always = slices.DeleteFunc(always, func(v any) bool { return !contains(required, v) })
		}
		closed = closed && branch.get("additionalProperties") == false
		sets = append(sets, p.setOf(branch))
		if properties := branch.object("properties"); properties != nil {
			for _, m := range properties.members {
				all.set(m.name, p.either(all.object(m.name), m.value.(*object)))
			}
		}
	}
	if first {
		return
	}
	if v, ok := p.bothProperties(or(o.get("properties"), &object{}), all, ""); ok {
		o.set("properties", v)
	}
	if required := union(o.get("required"), any(always)).([]any); len(required) > 0 {
		o.set("required", required)
	}
	if closed && !o.has("additionalProperties") {
		o.set("additionalProperties", false)
	}
	addDescription(o, "one of these sets: "+strings.Join(sets, " or "))
	p.notes.add("", "%s is exported as one object with the properties of all alternatives", name)
}

// setOf describes an alternative: its required properties, with the constants that distinguish it.
func (p *conversion) setOf(branch *object) string {
	var parts []string
	for _, name := range branch.list("required") {
		part, _ := name.(string)
		if property := branch.object("properties"); property != nil {
			if child := property.object(part); child != nil && child.has("const") {
				part += "=" + compact(child.get("const"))
			}
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "{}"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// either returns a schema for values that match a or b.
func (p *conversion) either(a, b *object) *object {
	switch {
	case a == nil || same(a, b):
		return b
	case choices(a) != nil && choices(b) != nil && same(a.get("type"), b.get("type")):
		out := a.copy()
		out.take("const")
		out.set("enum", union(any(choices(a)), any(choices(b))))
		return out
	case a.has("anyOf") && len(a.members) == 1:
		if !contains(a.list("anyOf"), b) {
			a.set("anyOf", append(a.list("anyOf"), b))
		}
		return a
	}
	return obj("anyOf", []any{a, b})
}

// choices returns the allowed values of a schema that contains only a type and an enum or const. For other schemas it returns nil.
func choices(o *object) []any {
	for _, m := range o.members {
		if m.name != "type" && m.name != "enum" && m.name != "const" && m.name != "description" {
			return nil
		}
	}
	if o.has("const") {
		return []any{o.get("const")}
	}
	return o.list("enum")
}
