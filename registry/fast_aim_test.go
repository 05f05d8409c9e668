package registry_test

import (
	"encoding/json"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
)

// aimed returns JSON texts that often match a schema and otherwise miss it narrowly.
func aimed(schema any, depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		m, _ := schema.(map[string]any)
		if depth == 0 || len(m) == 0 || rapid.IntRange(0, 9).Draw(t, "at random") == 0 {
			return values(min(depth, 1)).Draw(t, "value")
		}
		keyword := rapid.SampledFrom([]string{"enum", "const", "anyOf", "allOf", "type", "type"}).Draw(t, "aim")
		switch target := m[keyword].(type) {
		case []any:
			if len(target) > 0 && (keyword == "anyOf" || keyword == "allOf") {
				return aimed(rapid.SampledFrom(target).Draw(t, keyword), depth).Draw(t, keyword)
			}
			if len(target) > 0 && keyword == "enum" {
				return quoted(rapid.SampledFrom(target).Draw(t, keyword))
			}
		case nil:
		default:
			if keyword == "const" {
				return quoted(target)
			}
		}
		return aimedAtType(t, m, depth)
	})
}

func aimedAtType(t *rapid.T, m map[string]any, depth int) string {
	kinds := []any{"null", "boolean", "number", "string", "array", "object", "array", "object"}
	if types, ok := m["type"].([]any); ok {
		kinds = types
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "null":
		return "null"
	case "boolean":
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "boolean")
	case "integer", "number":
		bounds := slices.Clone(edgeNumbers)
		for _, name := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
			if n, ok := m[name].(json.Number); ok {
				bounds = append(slices.Repeat([]string{n.String()}, 20), bounds...)
			}
		}
		return rapid.OneOf(numbers(), rapid.SampledFrom(bounds)).Draw(t, "number")
	case "array":
		items := aimed(m["items"], depth-1)
		return "[" + strings.Join(rapid.SliceOfN(items, 0, 3).Draw(t, "items"), ",") + "]"
	case "object":
		members := map[string]string{}
		properties, _ := m["properties"].(map[string]any)
		required, _ := m["required"].([]any)
		for _, name := range rapid.SliceOfDistinct(memberNames(), rapid.ID[string]).Draw(t, "names") {
			schema, known := properties[name]
			if !known {
				schema = m["additionalProperties"]
			}
			members[name] = aimed(schema, depth-1).Draw(t, "member")
		}
		for _, name := range required {
			if name := name.(string); members[name] == "" && rapid.Bool().Draw(t, "complete") {
				members[name] = aimed(properties[name], depth-1).Draw(t, "member")
			}
		}
		return object(members)
	default:
		return quoted(texts().Draw(t, "text"))
	}
}

// parsed returns the value of a text from [aimed].
func parsed(t *rapid.T, text string) any {
	v, err := call.ParseJSON(text, 0)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}
