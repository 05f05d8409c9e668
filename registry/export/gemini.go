package export

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// geminiName matches the parameter names that Gemini accepts.
var geminiName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

var geminiFormats = map[string][]string{"STRING": {"date-time"}, "NUMBER": {"float", "double"}, "INTEGER": {"int32", "int64"}}

// gemini translates a schema to Gemini's format, a subset of OpenAPI 3.0. In this format a schema has one type, in capitals. null is a
// flag, enums contain only strings, and counts are strings.
func (p *conversion) gemini(o *object, at string) (*object, error) {
	p.spread(o, at)
	out := &object{}
	for _, name := range []string{"title", "description"} {
		if o.has(name) {
			out.set(name, o.get(name))
		}
	}
	p.describeIn(o, out, at, "default", "examples", "not", "if", "then", "else")
	branches := p.branches(o, out)
	if len(branches) != 1 || branches[0].has("anyOf") {
		return p.geminiUnion(branches, out, at)
	}
	for _, name := range []string{"title", "description"} {
		if v := branches[0].get(name); v != nil && !out.has(name) {
			out.set(name, v)
		}
	}
	return out, p.geminiOne(branches[0], out, at)
}

// branches splits a schema into schemas of one type each; null becomes a flag of out.
func (p *conversion) branches(o, out *object) (branches []*object) {
	whole := []any{o}
	if o.has("anyOf") {
		whole = o.list("anyOf")
	}
	for _, w := range whole {
		for _, one := range oneType(w.(*object)) {
			if one.get("type") == "null" {
				out.set("nullable", true)
				continue
			}
			branches = append(branches, one)
		}
	}
	return branches
}

// oneType splits a schema by the types of its values.
func oneType(o *object) []*object {
	if o.has("anyOf") { // a branch that has alternatives itself
		return []*object{o}
	}
	if o.has("const") {
		o.set("enum", []any{o.take("const")})
	}
	names := types(o.get("type"))
	values := o.list("enum")
	if values != nil {
		names = nil
		for _, v := range values {
			if t := typeIn(o, v); t != nil && !contains(names, t) {
				names = append(names, t)
			}
		}
	} else if names == nil && o.has("properties") {
		names = []any{"object"}
	}
	if names == nil {
		return []*object{o}
	}
	out := make([]*object, len(names))
	for i, name := range names {
		one := o.copy()
		one.set("type", name)
		if values != nil {
			one.set("enum", slices.DeleteFunc(slices.Clone(values), func(v any) bool { return typeIn(o, v) != name }))
		}
		out[i] = one
	}
	return out
}

// typeIn returns the type under which a schema allows the value v. For a whole number, this type is integer or number. It returns nil when
// the schema does not allow the type of v.
func typeIn(o *object, v any) any {
	name := typeOf(v)
	switch {
	case isType(o, name):
		return name
	case name == "number" && isWhole(v) && (isType(o, "integer") || !o.has("type")):
		return "integer"
	case o.has("type"):
		return nil
	}
	return name
}

func (p *conversion) geminiUnion(branches []*object, out *object, at string) (*object, error) {
	var all []any
	for _, b := range branches {
		b.take("title")
		s, err := p.gemini(b, at)
		if err != nil {
			return nil, err
		}
		if s.take("nullable") != nil {
			out.set("nullable", true)
		}
		if same(s.get("description"), out.get("description")) {
			s.take("description")
		}
		if !contains(all, s) {
			all = append(all, s)
		}
	}
	switch {
	case len(all) == 1:
		for _, m := range all[0].(*object).members {
			if !out.has(m.name) {
				out.set(m.name, m.value)
			}
		}
	case len(all) == 0 && out.has("nullable"):
		out.set("type", "STRING")
		addDescription(out, "always null")
		p.notes.add(at, "null alone is not supported as a type")
	case len(all) == 0:
		return p.geminiAny(out, at), nil
	default:
		out.set("anyOf", all)
	}
	return out, nil
}

// geminiAny makes out a schema for values of any type. Gemini requires a type in each schema.
func (p *conversion) geminiAny(out *object, at string) *object {
	out.set("anyOf", []any{obj("type", "STRING"), obj("type", "NUMBER"), obj("type", "BOOLEAN")})
	out.set("nullable", true)
	p.notes.add(at, "accepts any value; the export offers strings, numbers, booleans and null")
	return out
}

// geminiOne translates a schema of one type into out.
func (p *conversion) geminiOne(o, out *object, at string) error {
	for _, annotation := range []string{"title", "description"} {
		o.take(annotation)
	}
	name, _ := o.get("type").(string)
	if name == "" {
		p.describeIn(o, out, at, memberNames(o)...)
		p.geminiAny(out, at)
		return nil
	}
	kind := strings.ToUpper(name)
	out.set("type", kind)
	if f := o.text("format"); f != "" && slices.Contains(geminiFormats[kind], f) {
		out.set("format", o.take("format"))
	}
	if values := o.list("enum"); values != nil && kind == "STRING" {
		out.set("format", "enum")
		out.set("enum", o.take("enum"))
	}
	switch kind {
	case "STRING":
		p.counts(o, out, "minLength", "maxLength")
		if o.has("pattern") {
			out.set("pattern", o.take("pattern"))
		}
	case "INTEGER", "NUMBER":
		p.geminiBounds(o, out)
	case "ARRAY":
		p.counts(o, out, "minItems", "maxItems")
		items, err := p.geminiItems(o, out, at)
		if err != nil {
			return err
		}
		out.set("items", items)
	case "OBJECT":
		p.counts(o, out, "minProperties", "maxProperties")
		if err := p.geminiObject(o, out, at); err != nil {
			return err
		}
	}
	o.take("type")
	p.describeIn(o, out, at, memberNames(o)...)
	return nil
}

func memberNames(o *object) []string {
	names := make([]string, len(o.members))
	for i, m := range o.members {
		names[i] = m.name
	}
	return names
}

// counts translates 64-bit counts. Gemini's JSON has them as strings.
func (p *conversion) counts(o, out *object, names ...string) {
	for _, name := range names {
		if n, ok := o.get(name).(json.Number); ok {
			o.take(name)
			if whole, ok := new(big.Rat).SetString(string(n)); ok && whole.IsInt() {
				out.set(name, whole.Num().String())
			}
		}
	}
}

// geminiBounds keeps bounds. It converts exclusive bounds of integers to inclusive ones.
func (p *conversion) geminiBounds(o, out *object) {
	for _, name := range []string{"minimum", "maximum"} {
		if o.has(name) {
			out.set(name, o.take(name))
		}
	}
	if out.get("type") != "INTEGER" {
		return
	}
	for i, name := range []string{"exclusiveMinimum", "exclusiveMaximum"} {
		n, ok := o.get(name).(json.Number)
		inclusive := []string{"minimum", "maximum"}[i]
		if !ok || out.has(inclusive) || !isWhole(n) {
			continue
		}
		r, _ := new(big.Rat).SetString(string(n))
		o.take(name)
		out.set(inclusive, json.Number(new(big.Int).Add(r.Num(), big.NewInt(int64(1-2*i))).String()))
	}
}

// geminiItems returns one schema for all items.
func (p *conversion) geminiItems(o, out *object, at string) (*object, error) {
	below := join(at, "*")
	tuple := o.list("prefixItems")
	if tuple == nil {
		items, ok := o.take("items").(*object)
		if !ok {
			items = &object{}
		}
		return p.gemini(items, below)
	}
	o.take("prefixItems")
	o.take("items")
	addDescription(out, fmt.Sprintf("%d items in this order: %s", len(tuple), phrase("items", tuple)))
	p.notes.add(at, "a type for each position is not supported; the export offers all of them for each")
	return p.gemini(obj("anyOf", tuple), below)
}

func (p *conversion) geminiObject(o, out *object, at string) error {
	required := o.list("required")
	properties, names := &object{}, []any{}
	if in := o.object("properties"); in != nil {
		for _, m := range in.members {
			isRequired := contains(required, m.name)
			switch {
			case geminiName.MatchString(m.name):
			case isRequired:
				return fmt.Errorf("%s: the provider refuses the name of a required property: %q", join("", at), m.name)
			default:
				p.notes.add(join(at, m.name), "is omitted, because the provider refuses its name")
				continue
			}
			child, err := p.gemini(m.value.(*object), join(at, m.name))
			if err != nil {
				return err
			}
			properties.set(m.name, child)
			if isRequired {
				names = append(names, m.name)
			}
		}
	}
	o.take("properties")
	o.take("required")
	if len(properties.members) > 0 { // Gemini refuses an empty map.
		out.set("properties", properties)
	}
	if len(names) > 0 {
		out.set("required", names)
	}
	if more, isBool := o.get("additionalProperties").(bool); isBool {
		o.take("additionalProperties")
		if more && len(properties.members) == 0 {
			addDescription(out, "any members")
		}
	}
	return nil
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func isWhole(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	r, ok := new(big.Rat).SetString(string(n))
	return ok && r.IsInt()
}
