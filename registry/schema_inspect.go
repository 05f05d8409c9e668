package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// The limits of a schema. They accept the largest tool schemas in use (a few hundred subschemas) and keep compilation under one second.
const (
	maxSubschemas   = 2000
	maxBranches     = 256  // branches of one anyOf, allOf or oneOf
	maxPatternBytes = 1024 // maximum size of a pattern, and of a value of the format regex, in bytes
	maxPatternSteps = 4096 // instructions of one pattern
	maxNamePatterns = 512  // instructions of all patternProperties of one subschema
	maxCount        = 1 << 53
)

// patternKeyword replaces the keyword pattern in a prepared document. So the extension of toold, which limits the cost of a match, handles
// it instead of the library.
const patternKeyword = "x-toold-pattern"

// An applicator is a keyword whose value contains subschemas.
type applicator struct {
	shape   shape
	inPlace bool // The subschemas apply to the value itself, not to its members.
	unused  bool // The subschemas apply only through a reference.
}

type shape int

const (
	single       shape = iota
	array              // an array of schemas
	named              // an object of schemas
	singleOrList       // a schema or an array of schemas: items before 2020-12
	namedOrNames       // an object of schemas or arrays of names: dependencies
)

// applicators has the applicators of all drafts. The limits also apply to keywords that the schema's draft does not have.
var applicators = map[string]applicator{
	"not":                   {single, true, false},
	"if":                    {single, true, false},
	"then":                  {single, true, false},
	"else":                  {single, true, false},
	"allOf":                 {array, true, false},
	"anyOf":                 {array, true, false},
	"oneOf":                 {array, true, false},
	"dependentSchemas":      {named, true, false},
	"dependencies":          {namedOrNames, true, false},
	"additionalProperties":  {single, false, false},
	"additionalItems":       {single, false, false},
	"unevaluatedProperties": {single, false, false},
	"unevaluatedItems":      {single, false, false},
	"propertyNames":         {single, false, false},
	"contains":              {single, false, false},
	"contentSchema":         {single, false, true},
	"items":                 {singleOrList, false, false},
	"prefixItems":           {array, false, false},
	"properties":            {named, false, false},
	"patternProperties":     {named, false, false},
	"$defs":                 {named, false, true},
	"definitions":           {named, false, true},
}

// A node is a subschema and its edges to other subschemas.
type node struct {
	inPlace  []*node
	members  []*node
	weight   int64 // cost of one visit; 1 for a plain subschema
	patterns int64 // instructions of its patterns
	dynamic  bool  // The node has a reference that is resolved only during a check.
}

type reference struct {
	from    *node
	pointer string // pointer of the subschema with the reference
	target  string
}

type inspector struct {
	draft   int
	root    any
	nodes   map[string]*node // nodes by pointer
	anchors map[string]string
	refs    []reference
}

// inspect walks a schema and refuses a schema that must not be compiled. It returns the cost of a check and the draft. It also prepares the
// document: it renames the keyword pattern, and removes the identity of the root, because all references are local.
func inspect(document any) (effort, int, error) {
	in := &inspector{draft: 2020, root: document, nodes: map[string]*node{}, anchors: map[string]string{}}
	if m, ok := document.(map[string]any); ok {
		if err := in.readDraft(m); err != nil {
			return effort{}, 0, err
		}
		delete(m, "$id")
		if in.draft == 4 {
			delete(m, "id")
		}
	}
	root, err := in.visit(document, "#")
	if err != nil {
		return effort{}, 0, err
	}
	for len(in.refs) > 0 { // A target that was not visited yet may contain further references.
		ref := in.refs[0]
		in.refs = in.refs[1:]
		target, err := in.resolve(ref)
		if err != nil {
			return effort{}, 0, err
		}
		ref.from.inPlace = append(ref.from.inPlace, target)
	}
	e, err := estimate(root, in.nodes)
	return e, in.draft, err
}

func (in *inspector) readDraft(root map[string]any) error {
	value, ok := root["$schema"]
	if !ok {
		return nil
	}
	name, _ := value.(string)
	name = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://"), "#")
	drafts := map[string]int{
		"json-schema.org/draft-04/schema":      4,
		"json-schema.org/draft-06/schema":      6,
		"json-schema.org/draft-07/schema":      7,
		"json-schema.org/draft/2019-09/schema": 2019,
		"json-schema.org/draft/2020-12/schema": 2020,
	}
	if in.draft, ok = drafts[name]; !ok {
		return &SchemaError{"#/$schema", "unknown draft; known are 2020-12, 2019-09, draft-07, draft-06 and draft-04"}
	}
	return nil
}

// visit checks the subschema at pointer and returns its node.
func (in *inspector) visit(schema any, pointer string) (*node, error) {
	if n := in.nodes[pointer]; n != nil {
		return n, nil
	}
	if len(in.nodes) == maxSubschemas {
		return nil, &SchemaError{pointer, fmt.Sprintf("has more than %d subschemas", maxSubschemas)}
	}
	n := &node{weight: 1}
	in.nodes[pointer] = n
	switch schema := schema.(type) {
	case bool:
		return n, nil
	case map[string]any:
		if err := in.keywords(n, schema, pointer); err != nil {
			return nil, err
		}
		for _, keyword := range slices.Sorted(maps.Keys(schema)) {
			if a, ok := applicators[keyword]; ok {
				if err := in.subschemas(n, a, schema[keyword], pointer+"/"+escapePointer(keyword)); err != nil {
					return nil, err
				}
			}
		}
		return n, nil
	default:
		return nil, &SchemaError{pointer, "a schema is an object, true or false"}
	}
}

// subschemas visits the subschemas of an applicator. The compiler refuses a value of the wrong shape.
func (in *inspector) subschemas(n *node, a applicator, value any, pointer string) error {
	found := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		if a.shape != named && a.shape != namedOrNames {
			found[pointer] = value
			break
		}
		for name, schema := range value {
			if _, names := schema.([]any); !names || a.shape == named {
				found[pointer+"/"+escapePointer(name)] = schema
			}
		}
	case []any:
		if len(value) > maxBranches {
			return &SchemaError{pointer, fmt.Sprintf("has %d schemas, the limit is %d", len(value), maxBranches)}
		}
		for i, schema := range value {
			found[pointer+"/"+strconv.Itoa(i)] = schema
		}
	default:
		found[pointer] = value
	}
	for _, at := range slices.Sorted(maps.Keys(found)) {
		child, err := in.visit(found[at], at)
		if err != nil {
			return err
		}
		switch {
		case a.unused:
		case a.inPlace:
			n.inPlace = append(n.inPlace, child)
		default:
			n.members = append(n.members, child)
		}
	}
	return nil
}

// keywords checks the keywords without subschemas.
func (in *inspector) keywords(n *node, schema map[string]any, pointer string) error {
	if err := in.identity(schema, pointer); err != nil {
		return err
	}
	for _, keyword := range []string{"$ref", "$recursiveRef", "$dynamicRef"} {
		value, ok := schema[keyword]
		if !ok {
			continue
		}
		target, ok := value.(string)
		if !ok || !strings.HasPrefix(target, "#") {
			return &SchemaError{pointer + "/" + keyword, "a reference must begin with #: a schema is one document and reads no other"}
		}
		n.dynamic = n.dynamic || keyword != "$ref"
		in.refs = append(in.refs, reference{n, pointer, target})
	}
	for _, keyword := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"} {
		if number, ok := schema[keyword].(json.Number); ok {
			if f, err := number.Float64(); err != nil || f > maxCount {
				return &SchemaError{pointer + "/" + keyword, "the count is beyond 2^53"}
			}
		}
	}
	emptyEnum(schema)
	n.weight = weigh(schema)
	return in.patterns(n, schema, pointer)
}

// emptyEnum makes the library refuse every value when enum is empty. The library would ignore an empty enum.
func emptyEnum(schema map[string]any) {
	if values, ok := schema["enum"].([]any); !ok || len(values) > 0 {
		return
	}
	if all, ok := schema["allOf"].([]any); ok || schema["allOf"] == nil {
		schema["allOf"] = append(all, false)
	}
}

// identity refuses subschemas with an identity, and keywords that the library would interpret in the wrong place.
func (in *inspector) identity(schema map[string]any, pointer string) error {
	_, id := schema["$id"]
	if in.draft == 4 {
		_, id = schema["id"].(string)
	}
	if id && pointer != "#" {
		return &SchemaError{pointer, "only the schema itself may have an id: a schema is one document"}
	}
	if _, ok := schema["contentSchema"]; ok && in.draft < 2019 {
		return &SchemaError{pointer, "contentSchema needs draft 2019-09 or later"}
	}
	if _, ok := schema["regexProperties"]; ok {
		return &SchemaError{pointer, "regexProperties is not a keyword of JSON Schema"}
	}
	for _, keyword := range []string{"$anchor", "$dynamicAnchor"} {
		if name, ok := schema[keyword].(string); ok {
			in.anchors["#"+name] = pointer
		}
	}
	return nil
}

// patterns checks the regular expressions of a subschema, so that an error can say what is wrong with an expression. It adds their cost to
// the node, and renames the keyword pattern.
func (in *inspector) patterns(n *node, schema map[string]any, pointer string) error {
	if _, ok := schema[patternKeyword]; ok {
		return &SchemaError{pointer, "the keyword " + patternKeyword + " is reserved"}
	}
	if pattern, ok := schema["pattern"]; ok {
		text, ok := pattern.(string)
		if !ok {
			return &SchemaError{pointer + "/pattern", "want a string"}
		}
		steps, err := patternSteps(text, goPattern(text))
		if err != nil {
			return &SchemaError{pointer + "/pattern", err.Error()}
		}
		n.patterns += steps
		schema[patternKeyword] = text
		delete(schema, "pattern")
	}
	byName, _ := schema["patternProperties"].(map[string]any)
	var sum int64
	for _, text := range slices.Sorted(maps.Keys(byName)) {
		steps, err := patternSteps(text, text)
		if err != nil {
			return &SchemaError{pointer + "/patternProperties/" + escapePointer(text), err.Error()}
		}
		sum += steps
	}
	if sum > maxNamePatterns {
		return &SchemaError{pointer + "/patternProperties", "the patterns are too long"}
	}
	n.patterns += sum
	return nil
}

// patternSteps returns the number of instructions of a regular expression in Go. A match takes at most that many steps for each byte.
func patternSteps(text, goText string) (int64, error) {
	if len(text) > maxPatternBytes {
		return 0, fmt.Errorf("the pattern has %d bytes, the limit is %d", len(text), maxPatternBytes)
	}
	if _, err := regexp.Compile(goText); err != nil {
		return 0, fmt.Errorf("the pattern is not a Go regular expression (RE2, no lookaround): %w", err)
	}
	parsed, err := syntax.Parse(goText, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	if len(program.Inst) > maxPatternSteps {
		return 0, fmt.Errorf("the pattern is too big: %d instructions, the limit is %d", len(program.Inst), maxPatternSteps)
	}
	return int64(len(program.Inst)), nil
}
