package ask

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Limits of the schema that describes an answer.
const (
	maxSchemaDepth = 4
	maxSchemaNodes = 200
)

// answerProblem returns the first problem in the schema of an answer, with its path. It returns "" for an accepted schema.
//
// The accepted subset describes only values that a person can fill in and that are cheap to validate. It has no references, no patterns and
// no alternatives. An accepted schema compiles, so the call does not fail later. No minimum is above its maximum, because then no answer
// would be possible.
func answerProblem(schema map[string]any) (field, problem string) {
	c := checker{}
	c.schema("schema", schema, 1)
	return c.field, c.problem
}

// A checker keeps only the first problem, because later problems are often its consequence.
type checker struct {
	nodes          int
	field, problem string
}

func (c *checker) add(field, format string, args ...any) {
	if c.problem == "" {
		c.field, c.problem = field, fmt.Sprintf(format, args...)
	}
}

var types = []string{"string", "number", "integer", "boolean", "array", "object"}

func (c *checker) schema(path string, schema map[string]any, depth int) {
	if c.nodes++; c.nodes > maxSchemaNodes || depth > maxSchemaDepth {
		c.add(path, "is too large: at most %d schemas, nested at most %d levels", maxSchemaNodes, maxSchemaDepth)
		return
	}
	typ, _ := schema["type"].(string)
	if !slices.Contains(types, typ) {
		c.add(path+".type", "must be one of %v", types)
		return
	}
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		c.keyword(path+"."+keyword, keyword, schema[keyword], depth)
	}
	c.bounds(path, schema, "minimum", "maximum")
	c.bounds(path, schema, "minLength", "maxLength")
	c.bounds(path, schema, "minItems", "maxItems")
	if properties, _ := schema["properties"].(map[string]any); c.problem == "" {
		required, _ := schema["required"].([]any)
		for i, name := range required {
			if _, ok := properties[name.(string)]; !ok {
				c.add(fmt.Sprintf("%s.required[%d]", path, i), "is not one of the properties")
			}
		}
	}
}

func (c *checker) keyword(path, keyword string, value any, depth int) {
	switch keyword {
	case "type", "const", "default":
	case "title", "description":
		if _, ok := value.(string); !ok {
			c.add(path, "must be a string")
		}
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		if _, ok := value.(json.Number); !ok {
			c.add(path, "must be a number")
		}
	case "minLength", "maxLength", "minItems", "maxItems":
		if !isCount(value) {
			c.add(path, "must be a whole number from 0 to %d", math.MaxInt32)
		}
	case "uniqueItems", "additionalProperties":
		if _, ok := value.(bool); !ok {
			c.add(path, "must be true or false")
		}
	case "enum":
		if list, ok := value.([]any); !ok || len(list) == 0 {
			c.add(path, "must be a non-empty list")
		}
	case "required":
		c.names(path, value)
	case "items":
		c.child(path, value, depth)
	case "properties":
		properties, ok := value.(map[string]any)
		if !ok {
			c.add(path, "must be an object")
		}
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			c.child(path+"."+name, properties[name], depth)
		}
	default:
		c.add(path, "is not supported in the schema of an answer")
	}
}

func (c *checker) child(path string, value any, depth int) {
	if schema, ok := value.(map[string]any); ok {
		c.schema(path, schema, depth+1)
		return
	}
	c.add(path, "must be an object")
}

func (c *checker) names(path string, value any) {
	list, ok := value.([]any)
	if !ok {
		c.add(path, "must be a list of names")
	}
	seen := map[string]bool{}
	for i, v := range list {
		name, ok := v.(string)
		if !ok || seen[name] {
			c.add(fmt.Sprintf("%s[%d]", path, i), "must be a name without duplicates")
		}
		seen[name] = true
	}
}

// bounds rejects a minimum that is larger than the maximum.
func (c *checker) bounds(path string, schema map[string]any, low, high string) {
	least, ok := schema[low].(json.Number)
	most, ok2 := schema[high].(json.Number)
	if !ok || !ok2 || c.problem != "" {
		return
	}
	l, err := least.Float64()
	m, err2 := most.Float64()
	if err == nil && err2 == nil && l > m {
		c.add(path+"."+low, "is above %s", high)
	}
}

// isCount reports whether v is a valid length: a JSON number without sign, fraction or exponent, small enough for every parser.
func isCount(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(n.String(), 10, 31)
	return err == nil
}
