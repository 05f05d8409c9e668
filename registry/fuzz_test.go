package registry_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry"
)

// For any schema and value, validation does not panic, ends in time, and gives the same answer twice.
func FuzzSchema(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`, `{"a":1e400}`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"n":{"$ref":"#/$defs/a"}},"pattern":"^(a+)+$"}}}`, `{"n":{"n":"aaa"}}`},
		{`{"anyOf":[{"type":"string","format":"regex"},{"enum":[1,null]},{"const":{"a":[1.0]}}]}`, `"("`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"c":{"not":{}}},"items":[{}],"contentMediaType":"application/json"}`, `{"a":1,"c":2}`},
		{`{"$dynamicAnchor":"x","properties":{"a":{"$dynamicRef":"#x"}},"unevaluatedProperties":false,"patternProperties":{"^a":{}}}`, `{"a":{"b":1}}`},
		{`{"oneOf":[{"contains":{"const":1},"maxContains":1},{"uniqueItems":true,"prefixItems":[{"multipleOf":0.01}]}],"propertyNames":{"maxLength":1}}`, `[0.015,1,1]`},
		{`{"if":{"minimum":3},"then":{"exclusiveMaximum":7},"else":false}`, `-1`},
		{`{"$ref":"#/x/0","x":[{"$anchor":"y"}],"$recursiveRef":"#"}`, `null`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		start := used(t)
		s, err := registry.CompileSchema(json.RawMessage(schema))
		if err != nil {
			return
		}
		v, err := call.ParseJSON(value, 1<<20)
		if err != nil {
			return
		}
		first := s.Validate(v)
		if len(s.Validate(v)) != len(first) {
			t.Error("another answer the second time")
		}
		if len(first) > 16 {
			t.Errorf("%d violations", len(first))
		}
		for _, violation := range first {
			if violation.Description == "" {
				t.Errorf("violation without text: %+v", first)
			}
		}
		if took := used(t) - start; took > 10*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// Arguments and schemas contain regular expressions and URI templates. Parsing one always ends, and a valid Go expression stays valid after
// its translation.
func FuzzPattern(f *testing.F) {
	for _, seed := range []string{`^[]\s\S-]+\cA$`, `(?<n>a)\k<n>\1{2,}`, `[^\s[:alpha:]]`, `\Q\s\E`, `{+a.b:3,c*}`, `\`, `[\`, `http://u@[v1.x]/`, `(?<`, `\u{`, `[a-`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range []string{"regex", "uri-template", "iri", "uri-reference"} {
			registry.Formats()[format](text)
		}
		raw, err := json.Marshal(map[string]string{"pattern": text})
		if _, bad := regexp.Compile(text); err != nil || bad != nil || !utf8.ValidString(text) || len(text) > 100 {
			return
		}
		if _, err := registry.CompileSchema(raw); err != nil {
			t.Errorf("%q is an expression of Go and is refused: %v", text, err)
		}
	})
}
