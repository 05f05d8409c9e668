package export

import (
	"encoding/json"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// The limits of one exported schema, because references can make a small schema large.
const (
	maxNodes = 1000
	maxDepth = 32
)

// A conversion translates the schema of one tool for one provider.
type conversion struct {
	rule  *provider
	root  *object
	notes notes
	nulls []string
	open  map[string]bool // references on the path to the current schema
	nodes int
}

// plain returns a self-contained schema in the dialect 2020-12: without references, with every subschema an object, and without numbers
// that a double cannot represent. at is the path of the schema in the arguments.
func (p *conversion) plain(v any, at string, depth int) *object {
	p.nodes++
	switch {
	case p.nodes > maxNodes:
		p.notes.add(at, "the schema is too large; the export offers any value here")
		return &object{}
	case depth > maxDepth:
		p.notes.add(at, "the schema is too deep; the export offers any value here")
		return &object{}
	}
	in, ok := v.(*object)
	if !ok {
		if v == false {
			return obj("not", &object{})
		}
		return &object{}
	}
	if in.has("$ref") || in.has("$dynamicRef") || in.has("$recursiveRef") {
		return p.follow(in, at, depth)
	}
	out := &object{}
	for _, m := range in.members {
		p.keyword(out, m, at, depth+1)
	}
	p.modern(out)
	p.numbers(out, at)
	if isType(out, "array") && !out.has("items") {
		out.set("items", &object{})
	}
	return out
}

// keyword copies one keyword with its subschemas.
func (p *conversion) keyword(out *object, m member, at string, depth int) {
	switch m.name {
	case "properties", "patternProperties", "dependentSchemas":
		children := &object{}
		if o, ok := m.value.(*object); ok {
			for _, c := range o.members {
				below := at
				if m.name == "properties" {
					if c.value == false {
						p.notes.add(join(at, c.name), "must be absent and is omitted")
						continue
					}
					below = join(at, c.name)
				}
				children.set(c.name, p.plain(c.value, below, depth))
			}
		}
		out.set(m.name, children)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		out.set(m.name, p.plains(m.value, at, depth))
	case "items":
		if _, tuple := m.value.([]any); tuple { // Before the draft 2020-12, items with an array means a tuple.
			out.set("prefixItems", p.plains(m.value, join(at, "*"), depth))
			return
		}
		if m.value == false {
			return // The tuple allows no further items.
		}
		out.set(m.name, p.plain(m.value, join(at, "*"), depth))
	case "additionalItems":
		if m.value != false && out.has("prefixItems") {
			out.set("items", p.plain(m.value, join(at, "*"), depth))
		}
	case "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalProperties":
		if _, isBool := m.value.(bool); isBool {
			out.set(m.name, m.value)
			return
		}
		out.set(m.name, p.plain(m.value, join(at, "*"), depth))
	case "dependencies":
		p.dependencies(out, m.value, at, depth)
	case "title", "description", "format", "pattern":
		if text, ok := m.value.(string); ok {
			out.set(m.name, text)
		}
	default:
		if !ignored[m.name] {
			out.set(m.name, copyOf(m.value))
		}
	}
}

func (p *conversion) plains(v any, at string, depth int) []any {
	in, _ := v.([]any)
	out := make([]any, 0, len(in))
	for _, s := range in {
		out = append(out, p.plain(s, at, depth))
	}
	return out
}

// dependencies translates the keyword dependencies of draft 7 to the two keywords that replaced it.
func (p *conversion) dependencies(out *object, v any, at string, depth int) {
	in, _ := v.(*object)
	if in == nil {
		return
	}
	required, schemas := &object{}, &object{}
	for _, m := range in.members {
		if list, ok := m.value.([]any); ok {
			required.set(m.name, copyOf(list))
		} else {
			schemas.set(m.name, p.plain(m.value, at, depth))
		}
	}
	if len(required.members) > 0 {
		out.set("dependentRequired", required)
	}
	if len(schemas.members) > 0 {
		out.set("dependentSchemas", schemas)
	}
}

// modern rewrites exclusive bounds of draft 4, and declares required properties.
func (p *conversion) modern(o *object) {
	for _, pair := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		if flag, old := o.get(pair[0]).(bool); old {
			o.take(pair[0])
			if n := o.get(pair[1]); flag && n != nil {
				o.take(pair[1])
				o.set(pair[0], n)
			}
		}
	}
	declare(o)
}

// declare adds missing properties for required names, because providers compare the two lists.
func declare(o *object) {
	if !isType(o, "object") || o.has("anyOf") || o.has("oneOf") || o.has("allOf") {
		return
	}
	for _, name := range o.list("required") {
		s, ok := name.(string)
		if !ok {
			continue
		}
		if o.object("properties") == nil {
			o.set("properties", &object{})
		}
		if properties := o.object("properties"); !properties.has(s) {
			properties.set(s, &object{})
		}
	}
}

var bounds = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}

// numbers moves bounds and values that a double cannot represent to the description.
func (p *conversion) numbers(o *object, at string) {
	for _, name := range bounds {
		if n, ok := o.get(name).(json.Number); ok && !isDouble(n) {
			p.describe(o, at, name)
		}
	}
	for _, name := range []string{"enum", "const", "default", "examples"} {
		if o.has(name) && !doubles(o.get(name)) {
			p.describe(o, at, name)
		}
	}
	for _, m := range slices.Clone(o.members) {
		if !isFinite(m.value) {
			p.describe(o, at, m.name)
		}
	}
}

func doubles(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return isDouble(v)
	case []any:
		for _, e := range v {
			if !doubles(e) {
				return false
			}
		}
	case *object:
		for _, m := range v.members {
			if !doubles(m.value) {
				return false
			}
		}
	}
	return true
}

// isDouble reports whether a double represents a number. Only integers must be exact, because every JSON parser rounds fractions.
func isDouble(n json.Number) bool {
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return false
	}
	r, ok := new(big.Rat).SetString(string(n))
	return ok && (!r.IsInt() || new(big.Rat).SetFloat64(f).Cmp(r) == 0)
}

// follow replaces a reference with its target. It does not follow a reference that leads back to a schema on the current path.
func (p *conversion) follow(in *object, at string, depth int) *object {
	rest := &object{}
	for _, m := range in.members {
		if m.name != "$ref" && m.name != "$dynamicRef" && m.name != "$recursiveRef" {
			rest.members = append(rest.members, m)
		}
	}
	siblings := p.plain(rest, at, depth)
	ref := in.text("$ref")
	target, known := p.resolve(ref)
	switch {
	case !known:
		p.notes.add(at, "the reference %q is not followed; the export offers any value here", ref)
		return siblings
	case p.open[ref]:
		p.notes.add(at, "%s contains itself; the export has it once and offers any value below", ref)
		if t, ok := target.(*object); ok {
			if _, one := t.get("type").(string); one && !siblings.has("type") {
				siblings.set("type", t.get("type"))
				if isType(siblings, "array") {
					siblings.set("items", &object{})
				}
			}
		}
		addDescription(siblings, "the same again as "+lastPart(ref))
		return siblings
	}
	p.open[ref] = true
	out := p.plain(target, at, depth+1)
	delete(p.open, ref)
	if d := siblings.take("description"); d != nil { // The description beside the reference is more specific.
		out.set("description", d)
	}
	return p.merged(out, siblings, at)
}

// resolve finds the target of a reference within the document.
func (p *conversion) resolve(ref string) (any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	var v any = p.root
	if pointer == "" {
		return v, true
	}
	if pointer[0] != '/' {
		return findAnchor(v, pointer)
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(unescaped(part))
		switch node := v.(type) {
		case *object:
			if !node.has(part) {
				return nil, false
			}
			v = node.get(part)
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			v = node[i]
		default:
			return nil, false
		}
	}
	_, isBool := v.(bool)
	_, isObject := v.(*object)
	return v, isBool || isObject
}

func findAnchor(v any, name string) (any, bool) {
	switch v := v.(type) {
	case *object:
		if v.text("$anchor") == name {
			return v, true
		}
		for _, m := range v.members {
			if found, ok := findAnchor(m.value, name); ok {
				return found, true
			}
		}
	case []any:
		for _, e := range v {
			if found, ok := findAnchor(e, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}

// unescaped removes the URI escapes of a reference.
func unescaped(part string) string {
	if plain, err := url.PathUnescape(part); err == nil {
		return plain
	}
	return part
}

func lastPart(ref string) string {
	if ref == "#" || ref == "" {
		return "the whole"
	}
	return ref[strings.LastIndexAny(ref, "#/")+1:]
}

// join appends a name to a JSON pointer into arguments. The name * means each item or member.
func join(at, name string) string {
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func isType(o *object, name string) bool {
	switch t := o.get("type").(type) {
	case string:
		return t == name
	case []any:
		for _, one := range t {
			if one == name {
				return true
			}
		}
	}
	return false
}
