package registry

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A fastSchema recognizes most valid values about twenty times faster than the library, and without allocations. It is built from the
// library's compiled schema, if that has only common keywords. When it does not recognize a value, the library checks the value and names
// the violations. The fast check can be wrong in only one way: it could accept a value that the library refuses. Tests therefore compare
// the two.
//
// It is immutable.
type fastSchema struct {
	never  bool // the schema false
	types  kinds
	values []*fastValues // values of enum and const; a value must be in each of them
	format func(any) bool

	required                     []string
	properties                   map[string]*fastSchema
	additional                   *fastSchema // schema of members that are not in properties
	minProperties, maxProperties int

	items              *fastSchema
	minItems, maxItems int

	minLength, maxLength int
	pattern              *regexp.Regexp
	steps                int64 // steps of pattern for each byte

	atLeast, above, atMost, below *decimal

	all []*fastSchema // schemas that all apply to the same value: allOf and the target of $ref
	any []*fastSchema // schemas of which at least one must match
}

// kinds is a set of the types that a schema allows. Zero means all types.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindInteger
	kindNumber
	kindString
	kindArray
	kindObject
)

func (k kinds) allow(kind kinds) bool { return k == 0 || k&kind != 0 }

// fastValues holds the values of an enum or const, except objects and arrays.
type fastValues struct {
	null, yes, no bool
	texts         map[string]struct{}
	numbers       map[decimal]struct{}
}

// compileFast returns the fast check of a schema, or nil when it does not support a part of the schema.
func compileFast(s *jsonschema.Schema, assertFormats bool) *fastSchema {
	anything := &fastSchema{maxProperties: math.MaxInt, maxItems: math.MaxInt, maxLength: math.MaxInt}
	anything.additional, anything.items = anything, anything
	c := fastCompiler{made: map[*jsonschema.Schema]*fastSchema{}, anything: anything}
	if assertFormats {
		c.formats = formats()
	}
	f := c.schema(s)
	if c.unknown {
		return nil
	}
	return f
}

type fastCompiler struct {
	made     map[*jsonschema.Schema]*fastSchema // finished schemas, because several references may lead to one schema
	anything *fastSchema
	formats  map[string]func(any) bool // formats that are asserted
	unknown  bool                      // The schema has an unsupported part.
}

func (c *fastCompiler) schema(s *jsonschema.Schema) *fastSchema {
	if f := c.made[s]; f != nil {
		return f
	}
	f := &fastSchema{additional: c.anything, items: c.anything}
	c.made[s] = f
	if s.Always != nil {
		*f = *c.anything
		f.never = !*s.Always
		return f
	}
	if !supportsAll(s) {
		c.unknown = true
	}
	if c.unknown {
		return f
	}
	c.scalars(f, s)
	c.members(f, s)
	c.inPlace(f, s)
	return f
}

// supportsAll reports whether the fast check supports all keywords of a schema.
func supportsAll(s *jsonschema.Schema) bool {
	object := s.PropertyNames == nil && !s.RegexProperties && len(s.PatternProperties) == 0 && len(s.Dependencies) == 0 &&
		len(s.DependentRequired) == 0 && len(s.DependentSchemas) == 0 && s.UnevaluatedProperties == nil
	array := !s.UniqueItems && s.AdditionalItems == nil && len(s.PrefixItems) == 0 && s.Contains == nil && s.UnevaluatedItems == nil
	scalar := s.Pattern == nil && s.ContentEncoding == "" && s.ContentMediaType == "" && s.ContentSchema == nil && s.MultipleOf == nil
	inPlace := s.RecursiveRef == nil && s.DynamicRef == nil && s.Not == nil && len(s.OneOf) == 0 && s.If == nil
	return object && array && scalar && inPlace
}

func (c *fastCompiler) scalars(f *fastSchema, s *jsonschema.Schema) {
	f.types = c.types(s.Types)
	if len(s.Enum) > 0 {
		f.values = append(f.values, newFastValues(s.Enum))
	}
	if len(s.Constant) > 0 {
		f.values = append(f.values, newFastValues(s.Constant[:1]))
	}
	f.format = c.formats[s.Format]
	f.minLength, f.maxLength = s.MinLength, most(s.MaxLength)
	for _, extension := range s.Extensions {
		check, ours := extension.(*check)
		if !ours || check.meter != nil {
			c.unknown = true
			return
		}
		f.pattern, f.steps = check.pattern, check.steps
	}
	f.atLeast, f.above = c.bound(s.Minimum), c.bound(s.ExclusiveMinimum)
	f.atMost, f.below = c.bound(s.Maximum), c.bound(s.ExclusiveMaximum)
}

func (c *fastCompiler) types(names []string) (k kinds) {
	kind := map[string]kinds{
		"null": kindNull, "boolean": kindBoolean, "integer": kindInteger, "number": kindNumber,
		"string": kindString, "array": kindArray, "object": kindObject,
	}
	for _, name := range names {
		c.unknown = c.unknown || kind[name] == 0
		k |= kind[name]
	}
	return k
}

func (c *fastCompiler) bound(r *big.Rat) *decimal {
	if r == nil {
		return nil
	}
	d, ok := decimalOf(r)
	c.unknown = c.unknown || !ok
	return &d
}

func (c *fastCompiler) members(f *fastSchema, s *jsonschema.Schema) {
	f.required = s.Required
	f.minProperties, f.maxProperties = s.MinProperties, most(s.MaxProperties)
	f.minItems, f.maxItems = s.MinItems, most(s.MaxItems)
	f.properties = make(map[string]*fastSchema, len(s.Properties))
	for name, member := range s.Properties {
		f.properties[name] = c.schema(member)
	}
	switch additional := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		if !additional {
			f.additional = &fastSchema{never: true}
		}
	case *jsonschema.Schema:
		f.additional = c.schema(additional)
	default:
		c.unknown = true
	}
	switch items := s.Items.(type) {
	case nil:
	case *jsonschema.Schema:
		f.items = c.schema(items)
	default:
		c.unknown = true
	}
	if s.Items2020 != nil {
		f.items = c.schema(s.Items2020)
	}
}

func (c *fastCompiler) inPlace(f *fastSchema, s *jsonschema.Schema) {
	for _, part := range s.AllOf {
		f.all = append(f.all, c.schema(part))
	}
	if s.Ref != nil {
		f.all = append(f.all, c.schema(s.Ref))
	}
	for _, form := range s.AnyOf {
		f.any = append(f.any, c.schema(form))
	}
}

// most returns a limit of the library, or the largest int for no limit.
func most(limit int) int {
	if limit == -1 {
		return math.MaxInt
	}
	return limit
}

func newFastValues(values []any) *fastValues {
	v := &fastValues{texts: map[string]struct{}{}, numbers: map[decimal]struct{}{}}
	for _, value := range values {
		switch value := value.(type) {
		case nil:
			v.null = true
		case bool:
			v.yes, v.no = v.yes || value, v.no || !value
		case string:
			v.texts[value] = struct{}{}
		case json.Number:
			if d, ok := parseDecimal(string(value)); ok {
				v.numbers[d] = struct{}{}
			}
		}
	}
	return v
}
