package registry_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/toold-dev/toold/tool"
)

// The speed measurements use two schemas: typicalTool and tenProperties.
const (
	typicalTool = `{"type":"object","additionalProperties":false,"required":["path","pattern"],"properties":{
		"path":{"type":"string","minLength":1,"maxLength":4096},"pattern":{"type":"string","minLength":1},
		"limit":{"type":"integer","minimum":1,"maximum":10000},"offset":{"type":"integer","minimum":0},
		"recursive":{"type":"boolean"},"ignore_case":{"type":"boolean"},"ratio":{"type":"number","minimum":0,"maximum":1},
		"mode":{"type":"string","enum":["content","files","count"]},"tags":{"type":"array","items":{"type":"string"},"maxItems":16},
		"note":{"type":"string","maxLength":200}}}`
	typicalArguments = `{"path":"src/main/server.go","pattern":"func Serve","limit":200,"offset":10,"recursive":true,"ignore_case":false,"ratio":0.75,"mode":"content","tags":["alpha","beta"],"note":"a short remark, 200 bytes"}`
)

// The test has a list of values that the fast check accepts, and a list of valid values that it leaves to the library. Other tests compare
// invalid values with the library.
func TestFastCheckTakesWhatIsCommon(t *testing.T) {
	taken := [][2]string{
		{typicalTool, typicalArguments},
		{tenProperties, strings.Replace(tenArguments, `,"x":"a"`, "", 1)},
		{`true`, `{"a":[1,"b",null]}`},
		{`{"title":"t","description":"d","default":1,"$comment":"c","examples":[1]}`, `[[{"a":{}}]]`},
		{`{"type":["integer","null"]}`, `null`},
		{`{"type":"integer"}`, `1.0`},
		{`{"minimum":0.1,"exclusiveMaximum":9223372036854775808}`, `9223372036854775807`},
		{`{"enum":["a",1.50,null,true,{"a":1}]}`, `1.5`},
		{`{"enum":["a",null]}`, `null`},
		{`{"const":false}`, `false`},
		{`{"pattern":"^[a-z]+$","minLength":2,"maxLength":2}`, `"ab"`},
		{`{"maxLength":2}`, `"üü"`},
		{`{"format":"date-time"}`, `"2026-01-02T03:04:05Z"`},
		{`{"format":"of my own"}`, `"x"`},
		{`{"format":"regex"}`, `"(a)"`},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `null`},
		{`{"allOf":[{"$ref":"#/$defs/a"},{"minLength":1}],"$defs":{"a":{"type":"string"}}}`, `"a"`},
		{`{"additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":2}`, `{"a":1,"b":2}`},
		{`{"minItems":1,"maxItems":2,"items":{"items":{"type":"boolean"}}}`, `[[true],[]]`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":{"type":"string"}}`, `["a"]`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `1.1`},
	}
	for _, tt := range taken {
		if s := compileAsserting(t, tt[0]); !s.Surely(parse(t, tt[1])) {
			t.Errorf("%s is not taken by %s", tt[1], tt[0])
		}
	}
	left := [][2]string{
		{`{"type":"number"}`, `1e2`},                                        // has an exponent
		{`{"type":"integer"}`, `100000000000000000000`},                     // has more than 19 digits
		{`{"enum":[[1]]}`, `[1]`},                                           // has an enum value that is no scalar
		{`{"format":"uri"}`, `"http://x/` + strings.Repeat("a", 300) + `"`}, // too long for a fast check of a format
	}
	for _, tt := range left {
		s, v := compileAsserting(t, tt[0]), parse(t, tt[1])
		if violations := s.Validate(v); !s.HasFast() || s.Surely(v) || violations != nil {
			t.Errorf("%s against %s: fast check %t, surely %t, violations %v", tt[1], tt[0], s.HasFast(), s.Surely(v), violations)
		}
	}
}

// A schema with a keyword that the fast check does not support has no fast check.
func TestFastCheckNeedsToKnowEveryKeyword(t *testing.T) {
	for _, keyword := range []string{
		`"not":{"type":"null"}`, `"oneOf":[{}]`, `"if":{},"then":false`, `"if":{},"else":true`, `"multipleOf":2`, `"minimum":1e300`, `"maximum":1e-30`,
		`"propertyNames":{}`, `"patternProperties":{"a":{}}`, `"dependentRequired":{"a":["b"]}`, `"dependentSchemas":{"a":{}}`,
		`"dependencies":{"a":["b"]}`, `"unevaluatedProperties":false`, `"unevaluatedItems":false`, `"uniqueItems":true`,
		`"prefixItems":[{}]`, `"contains":{}`, `"contentEncoding":"base64"`, `"contentMediaType":"application/json"`,
		`"properties":{"a":{"$ref":"#"}}`, `"$dynamicAnchor":"a","items":{"$dynamicRef":"#a"}`,
	} {
		for _, form := range []string{`{%s}`, `{"type":"object","properties":{"x":{%s}}}`, `{"anyOf":[{},{%s}]}`, `{"items":{%s}}`, `{"additionalProperties":{%s}}`} {
			if strings.Contains(keyword, `"#`) && form != `{%s}` {
				continue // Inside another schema, the reference would have another target.
			}
			if compile(t, fmt.Sprintf(form, keyword)).HasFast() {
				t.Errorf("%s in %s has a fast check", keyword, form)
			}
		}
	}
	for _, schema := range []string{
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}]}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{}],"additionalItems":false}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}`,
	} {
		if compile(t, schema).HasFast() {
			t.Errorf("%s has a fast check", schema)
		}
	}
}

// A new keyword of the library must not be overlooked. Before you extend this list, compare it with knowsAll.
func TestFastCheckCoversTheFieldsOfTheLibrary(t *testing.T) {
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[jsonschema.Schema]()) {
		fields = append(fields, f.Name)
	}
	slices.Sort(fields)
	known := strings.Fields(`AdditionalItems AdditionalProperties AllOf Always AnyOf Comment Constant Contains ContainsEval
		ContentEncoding ContentMediaType ContentSchema Default Dependencies DependentRequired DependentSchemas Deprecated
		Description Draft DynamicAnchor DynamicRef Else Enum Examples ExclusiveMaximum ExclusiveMinimum Extensions Format If
		Items Items2020 Location MaxContains MaxItems MaxLength MaxProperties Maximum MinContains MinItems MinLength
		MinProperties Minimum MultipleOf Not OneOf Pattern PatternProperties PrefixItems Properties PropertyNames ReadOnly
		RecursiveAnchor RecursiveRef Ref RegexProperties Required Then Title Types UnevaluatedItems UnevaluatedProperties
		UniqueItems WriteOnly decoder dynamicAnchors dynamicRefAnchor enumError format mediaType meta vocab`)
	if d := cmp.Diff(known, fields); d != "" {
		t.Errorf("fields of the library's schema (-known +there):\n%s", d)
	}
}

// The fast check must refuse every value that Validate refuses before it checks the schema, even with a schema that accepts everything.
func TestFastCheckRefusesWhatIsNoJSON(t *testing.T) {
	deep, deepObject := any("x"), any("x")
	for range 65 {
		deep, deepObject = []any{deep}, map[string]any{"a": deepObject}
	}
	s := compile(t, `{}`)
	for name, v := range map[string]any{
		"huge exponent": json.Number("1e20000000"),
		"long token":    json.Number("1" + strings.Repeat("0", 64)),
		"long fraction": json.Number("1." + strings.Repeat("0", 64)),
		"no number":     json.Number("abc"),
		"infinity":      json.Number("Inf"),
		"hexadecimal":   json.Number("0x1"),
		"underscore":    json.Number("1_0"),
		"plus":          json.Number("+1"),
		"no digits":     json.Number("-"),
		"no fraction":   json.Number("1."),
		"two points":    json.Number("1.0.0"),
		"only fraction": json.Number(".5"),
		"needless zero": json.Number("01"),
		"empty number":  json.Number(""),
		"Go int":        7,
		"Go string":     map[string]string{},
		"deep":          deep,
		"deep object":   deepObject,
	} {
		for _, v := range []any{v, []any{v}, map[string]any{"a": v}} {
			if s.Surely(v) {
				t.Errorf("%s: %.100v is taken", name, v)
			}
		}
	}
	for _, v := range []any{deep.([]any)[0], deepObject.(map[string]any)["a"]} {
		if !s.Surely(v) || s.ValidateByLibrary(v) != nil {
			t.Errorf("the deepest value %.100v is not taken", v)
		}
	}
}

// The fast check leaves expensive checks to the library, which can meter them.
func TestFastCheckIsBounded(t *testing.T) {
	var doubling strings.Builder // causes 2^11 visits of one value
	doubling.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
	for i := range 10 {
		fmt.Fprintf(&doubling, `"l%d":{"allOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
	}
	doubling.WriteString(`"l10":{"type":["string","array"],"maxLength":99999}}}`)
	tests := []struct{ name, schema, value string }{
		{"visits", `{"items":` + strings.ReplaceAll(doubling.String(), "#/", "#/items/") + `}`, `[` + strings.Repeat(`[],`, 1000) + `[]]`},
		{"length", doubling.String(), `"` + strings.Repeat("ü", 50_000) + `"`},
		{"names", doubling.String(), `[{"` + strings.Repeat("a", 50_000) + `":1}]`},
		{"pattern", `{"pattern":"^(x|[a-z]{500}y)*$"}`, `"` + strings.Repeat("x", 100_000) + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, v := compile(t, tt.schema), parse(t, tt.value)
			if !s.HasFast() {
				t.Fatal("no fast check")
			}
			start := used(t)
			if s.Surely(v) {
				t.Error("was taken")
			}
			if took := used(t) - start; took > 2*time.Second { // takes a few milliseconds without the race detector
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestFastCheckTakesNoMemory(t *testing.T) {
	for _, tt := range [][2]string{
		{typicalTool, typicalArguments},
		{tenProperties, strings.Replace(tenArguments, `,"x":"a"`, "", 1)},
		{`{"additionalProperties":{"anyOf":[{"enum":[1,0.5,"a",true]},{"items":{"exclusiveMinimum":0.1}}]}}`, `{"a":[1,2.5],"b":0.50,"c":true}`},
	} {
		s, v := compile(t, tt[0]), parse(t, tt[1])
		if n := testing.AllocsPerRun(100, func() { s.Validate(v) }); n != 0 {
			t.Errorf("%v allocations for %s", n, tt[1])
		}
	}
}

func BenchmarkValidateTypicalTool(b *testing.B) {
	s, v := compile(b, typicalTool), parse(b, typicalArguments)
	check := func(validate func(any) []tool.Violation) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if validate(v) != nil {
					b.Fatal("refused")
				}
			}
		}
	}
	b.Run("fast", check(s.Validate))
	b.Run("library", check(s.ValidateByLibrary))
}
