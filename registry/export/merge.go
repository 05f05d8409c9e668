package export

import (
	"encoding/json"
	"math/big"
	"slices"
)

// merged returns a schema for values that match both a and b. When it cannot merge two values of a keyword, it keeps the value of a and
// describes the value of b.
func (p *conversion) merged(a, b *object, at string) *object {
	for _, m := range b.members {
		if !a.has(m.name) {
			a.set(m.name, m.value)
			continue
		}
		if v, ok := p.both(m.name, a.get(m.name), m.value, at); ok {
			a.set(m.name, v)
			continue
		}
		if text := phrase(m.name, m.value); m.name != "description" && m.name != "title" {
			addDescription(a, text)
			p.notes.add(at, "two values of %s cannot be merged; the description has one", m.name)
		}
	}
	declare(a)
	return a
}

// both merges two values of one keyword.
func (p *conversion) both(name string, a, b any, at string) (any, bool) {
	if same(a, b) {
		return a, true
	}
	switch name {
	case "description":
		return a.(string) + " " + b.(string), true
	case "type":
		return bothTypes(a, b)
	case "required":
		return union(a, b), true
	case "enum":
		return common(a, b)
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		return further(a, b, 1)
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		return further(a, b, -1)
	case "properties":
		return p.bothProperties(a, b, at)
	case "additionalProperties", "items":
		return p.bothSchemas(a, b, at)
	case "allOf":
		return append(a.([]any), b.([]any)...), true
	}
	return nil, false
}

func (p *conversion) bothProperties(a, b any, at string) (any, bool) {
	into, ok := a.(*object)
	from, ok2 := b.(*object)
	if !ok || !ok2 {
		return nil, false
	}
	for _, m := range from.members {
		if child := into.object(m.name); child != nil && m.value != nil {
			into.set(m.name, p.merged(child, m.value.(*object), join(at, m.name)))
		} else {
			into.set(m.name, m.value)
		}
	}
	return into, true
}

func (p *conversion) bothSchemas(a, b any, at string) (any, bool) {
	switch {
	case a == false || b == false:
		return false, true
	case a == true:
		return b, true
	case b == true:
		return a, true
	}
	return p.merged(a.(*object), b.(*object), join(at, "*")), true
}

func types(v any) []any {
	switch v := v.(type) {
	case string:
		return []any{v}
	case []any:
		return v
	}
	return nil
}

func bothTypes(a, b any) (any, bool) {
	var out []any
	for _, t := range types(a) {
		switch {
		case contains(types(b), t), t == "integer" && contains(types(b), "number"):
			out = append(out, t)
		case t == "number" && contains(types(b), "integer"):
			out = append(out, "integer")
		}
	}
	return oneOrAll(out), len(out) > 0
}

func contains(list []any, v any) bool {
	return slices.ContainsFunc(list, func(other any) bool { return same(v, other) })
}

// oneOrAll returns the value of the keyword type for these types: a string for one type, and an array for several types.
func oneOrAll(types []any) any {
	if len(types) == 1 {
		return types[0]
	}
	return types
}

func union(a, b any) any {
	out := slices.Clone(types(a))
	for _, v := range types(b) {
		if !contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func common(a, b any) (any, bool) {
	var out []any
	for _, v := range types(a) {
		if contains(types(b), v) {
			out = append(out, v)
		}
	}
	return out, len(out) > 0
}

// further returns the stricter of two bounds: the greater one when sign is 1, else the smaller one.
func further(a, b any, sign int) (any, bool) {
	an, ok := a.(json.Number)
	bn, ok2 := b.(json.Number)
	if !ok || !ok2 {
		return nil, false
	}
	x, ok := new(big.Rat).SetString(string(an))
	y, ok2 := new(big.Rat).SetString(string(bn))
	if !ok || !ok2 {
		return nil, false
	}
	if x.Cmp(y)*sign >= 0 {
		return a, true
	}
	return b, true
}

// joined merges the subschemas of allOf into the schema.
func (p *conversion) joined(o *object, at string) {
	for _, part := range types(o.take("allOf")) {
		part := part.(*object)
		p.joined(part, at)
		p.merged(o, part, at)
	}
}

// spread turns oneOf into anyOf, and copies the keywords beside the branches into each branch.
func (p *conversion) spread(o *object, at string) {
	p.joined(o, at)
	if o.has("oneOf") {
		branches := o.take("oneOf")
		if o.has("anyOf") {
			addDescription(o, phrase("oneOf", branches))
			p.notes.add(at, "oneOf beside anyOf is not supported; the description has it")
		} else {
			o.set("anyOf", branches)
			p.notes.add(at, "oneOf is exported as anyOf")
		}
	}
	if !o.has("anyOf") {
		return
	}
	branches := o.list("anyOf")
	beside := &object{}
	for _, m := range slices.Clone(o.members) {
		if m.name != "anyOf" && m.name != "description" && m.name != "title" && m.name != "default" {
			beside.set(m.name, o.take(m.name))
		}
	}
	size := sizeOf(beside)
	whole := make([]any, 0, len(branches))
	for _, b := range branches {
		branch := b.(*object)
		if impossible(branch) {
			continue
		}
		if p.nodes += size; p.nodes > maxNodes {
			p.notes.add(at, "the alternatives are too large; some are omitted")
			break
		}
		if len(beside.members) > 0 {
			if t, ok := bothTypes(or(branch.get("type"), beside.get("type")), or(beside.get("type"), branch.get("type"))); !ok && t != nil {
				continue
			}
			branch = p.merged(beside.copy(), branch, at)
		}
		p.spread(branch, at)
		if nested := branch.list("anyOf"); nested != nil && len(branch.members) == 1 {
			whole = append(whole, nested...)
			continue
		}
		whole = append(whole, branch)
	}
	switch len(whole) {
	case 0:
		o.take("anyOf")
	case 1:
		o.take("anyOf")
		d := o.take("description")
		p.merged(o, whole[0].(*object), at)
		if d != nil {
			o.set("description", d)
		}
	default:
		o.set("anyOf", whole)
	}
}

func sizeOf(v any) int {
	n := 1
	switch v := v.(type) {
	case *object:
		for _, m := range v.members {
			n += sizeOf(m.value)
		}
	case []any:
		for _, e := range v {
			n += sizeOf(e)
		}
	}
	return n
}

func or(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

// impossible reports whether a schema comes from the schema false.
func impossible(o *object) bool {
	not := o.object("not")
	return not != nil && len(not.members) == 0
}
