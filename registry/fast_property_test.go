package registry_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
)

// edgeNumbers has number tokens that parsers often misread.
var edgeNumbers = []string{
	"0", "-0", "0.0", "-0.0", "1", "1.0", "1.00", "-1", "-1.0", "10", "1e1", "1e2", "100", "1E+2", "10e-1", "0.1", "0.10", "-0.1", "0.5", "1.5", "-1.5",
	"9007199254740991", "9007199254740992", "9007199254740993", "9007199254740993.0", "-9007199254740993",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9223372036854775807.5",
	"18446744073709551609", "18446744073709551615", "18446744073709551616", "184467440737095516160", "1844674407370955161.5", "99999999999999999999",
	"0.000000000000000001", "0.0000000000000000001", "1.000000000000000001", "1.000000000000000000", "1.0000000000000000000", "18.446744073709551615",
	"0.4", "1844674407370955162", "0.00000000000000000000000000000000000001", "1.844674407370955161600000000000000000000001", "-0.0000000000000000000000000000000000000000000000000000000000001",
	"0.0000000000000000000000000000000000000000018446744073709551609", "0.1000000000000000055", "1e400", "-1e400", "1e-400", "123456789012345678901234567890.5", "1000000000000000000", "0.999999999999999999",
}

func numbers() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(edgeNumbers),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,2})(\.[0-9]{1,2})?`),
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?`),
	)
}

// texts draws short texts. They have only a few characters, of one to four bytes each, so that random values often match lengths, enums and
// patterns.
func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune("abü€😀\u0301")), 0, 4, -1), rapid.SampledFrom([]string{"2026-01-02", "1.2.3.4", "a@b.de", "("}))
}

func memberNames() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "a", "b", "ü", "a/b"})
}

func values(depth int) *rapid.Generator[string] {
	scalars := rapid.OneOf(rapid.SampledFrom([]string{"null", "true", "false"}), numbers(), rapid.Map(texts(), quoted[string]))
	if depth == 0 {
		return scalars
	}
	return rapid.OneOf(scalars, rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(values(depth-1), 0, 3).Draw(t, "items"), ",") + "]"
	}), rapid.Custom(func(t *rapid.T) string {
		return object(rapid.MapOfN(memberNames(), values(depth-1), 0, 4).Draw(t, "members"))
	}))
}

func object(members map[string]string) string {
	parts := make([]string, 0, len(members))
	for name, value := range members {
		parts = append(parts, quoted(name)+":"+value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func quoted[T any](v T) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// schemas returns the texts of schemas with keywords that the fast check supports.
func schemas(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		keywords := map[string]string{}
		for _, keyword := range rapid.SliceOfNDistinct(rapid.SampledFrom(keywordNames(depth)), 0, 4, rapid.ID[string]).Draw(t, "keywords") {
			keywords[keyword] = keywordValue(t, keyword, depth)
		}
		if len(keywords) == 0 && rapid.IntRange(0, 3).Draw(t, "bool") == 0 {
			return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "schema")
		}
		return object(keywords)
	})
}

func keywordNames(depth int) []string {
	names := []string{
		"type", "type", "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"minLength", "maxLength", "pattern", "format", "required", "minProperties", "maxProperties", "minItems", "maxItems",
	}
	if depth > 0 {
		names = append(names, "properties", "properties", "additionalProperties", "additionalProperties", "items", "items", "allOf", "anyOf")
	}
	return names
}

func keywordValue(t *rapid.T, keyword string, depth int) string {
	list := func(g *rapid.Generator[string], least int) string {
		return "[" + strings.Join(rapid.SliceOfN(g, least, 3).Draw(t, keyword), ",") + "]"
	}
	switch keyword {
	case "type":
		types := rapid.SampledFrom([]string{"null", "boolean", "integer", "number", "string", "array", "object"})
		return quoted(rapid.SliceOfNDistinct(types, 1, 3, rapid.ID[string]).Draw(t, keyword))
	case "enum":
		return list(values(1), 1) // The library treats an empty enum as no enum.
	case "const":
		return values(1).Draw(t, keyword)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return numbers().Draw(t, keyword)
	case "pattern":
		return quoted(rapid.SampledFrom([]string{"^a", "b$", "^[ab]*$", "ü", "^.{2}$", ""}).Draw(t, keyword))
	case "format":
		return quoted(rapid.SampledFrom([]string{"date", "ipv4", "email", "regex", "mine"}).Draw(t, keyword))
	case "required":
		return quoted(rapid.SliceOfNDistinct(memberNames(), 0, 2, rapid.ID[string]).Draw(t, keyword))
	case "properties":
		return object(rapid.MapOfN(memberNames(), schemas(depth-1), 0, 3).Draw(t, keyword))
	case "additionalProperties", "items":
		return schemas(depth-1).Draw(t, keyword)
	case "allOf", "anyOf":
		return list(schemas(depth-1), 1)
	default: // keywords with counts
		return rapid.SampledFrom([]string{"0", "1", "2", "2.0", "3"}).Draw(t, keyword)
	}
}

// With random schemas and values, the library accepts every value that the fast check accepts.
func TestFastCheckAgainstTheLibrary(t *testing.T) {
	var checked, valid, taken int
	rapid.Check(t, func(t *rapid.T) {
		schema := schemas(3).Draw(t, "schema")
		if !strings.HasPrefix(schema, "{") {
			schema = `{"items":` + schema + `}`
		}
		draft := rapid.SampledFrom([]string{"", "https://json-schema.org/draft/2019-09/schema", "http://json-schema.org/draft-07/schema#"}).Draw(t, "draft")
		if draft != "" {
			schema = withDraft(json.RawMessage(schema), draft)
		}
		s, err := asserting.CompileSchema(json.RawMessage(schema))
		if err != nil {
			return // Some drafts refuse an enum with a duplicate value.
		}
		judge := library(t, schema, true)
		for _, text := range rapid.SliceOfN(aimed(parsed(t, schema), 4), 20, 20).Draw(t, "values") {
			v := parsed(t, text)
			checked++
			want := judge.Validate(v) == nil
			surely := s.Surely(v)
			if surely && !want {
				t.Fatalf("the fast check takes %s against %s", text, schema)
			}
			if got := s.Validate(v) == nil; got != want {
				t.Fatalf("%s against %s: valid %t, want %t", text, schema, got, want)
			}
			if want {
				valid++
			}
			if surely {
				taken++
			}
		}
	})
	t.Logf("%d values, %d valid, %d taken by the fast check", checked, valid, taken)
	if taken*5 < valid {
		t.Errorf("only %d of %d valid values are taken: the comparison says little", taken, valid)
	}
}

// Numbers are compared exactly in all notations.
func TestFastCheckComparesNumbersExactly(t *testing.T) {
	exact := func(token string) *big.Rat {
		r, ok := new(big.Rat).SetString(token)
		if !ok {
			t.Fatalf("no number: %s", token)
		}
		return r
	}
	forms := []struct {
		schema string
		holds  func(value, other *big.Rat) bool
	}{
		{`{"minimum":%s}`, func(v, o *big.Rat) bool { return v.Cmp(o) >= 0 }},
		{`{"exclusiveMinimum":%s}`, func(v, o *big.Rat) bool { return v.Cmp(o) > 0 }},
		{`{"maximum":%s}`, func(v, o *big.Rat) bool { return v.Cmp(o) <= 0 }},
		{`{"exclusiveMaximum":%s}`, func(v, o *big.Rat) bool { return v.Cmp(o) < 0 }},
		{`{"const":%s}`, func(v, o *big.Rat) bool { return v.Cmp(o) == 0 }},
		{`{"enum":["a",%s]}`, func(v, o *big.Rat) bool { return v.Cmp(o) == 0 }},
		{`{"type":"integer","default":%s}`, func(v, _ *big.Rat) bool { return v.IsInt() }},
	}
	short := func(token string) bool { return len(token) <= 18 && !strings.ContainsAny(token, "eE") }
	for _, form := range forms {
		compare := func(fatal func(string, ...any), other string, values []string) {
			schema := fmt.Sprintf(form.schema, other)
			s := compile(t, schema)
			for _, value := range values {
				if _, err := call.ParseJSON(value, 0); err != nil {
					continue // The changed token is no number.
				}
				want, surely := form.holds(exact(value), exact(other)), s.Surely(json.Number(value))
				if surely && !want {
					fatal("%s is taken by %s", value, schema)
				}
				if want && !surely && short(value) && short(other) {
					fatal("%s is not taken by %s", value, schema)
				}
			}
		}
		for _, other := range edgeNumbers {
			compare(t.Errorf, other, edgeNumbers)
		}
		rapid.Check(t, func(t *rapid.T) {
			other := numbers().Draw(t, "other")
			near := rapid.OneOf(rapid.SampledFrom([]string{other, strings.TrimPrefix("-"+other, "--"), other[:len(other)-1] + "1"}), numbers())
			compare(t.Fatalf, other, rapid.SliceOfN(near, 20, 20).Draw(t, "values"))
		})
	}
}

// For any schema and value, the fast check accepts no value that the library refuses.
func FuzzFastCheck(f *testing.F) {
	for _, seed := range [][2]string{
		{typicalTool, typicalArguments},
		{tenProperties, tenArguments},
		{`{"type":"integer","minimum":-1,"exclusiveMaximum":9007199254740993,"enum":[1.0,2]}`, `1`},
		{`{"format":"regex"}`, `"("`},
		{`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"pattern":"^a","minLength":1,"format":"email"}}}`, `"ü"`},
		{`{"anyOf":[{"const":null},{"additionalProperties":{"items":{"type":["array","boolean"]}}}]}`, `{"a":[true,[]]}`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true,"items":false}`, `1.0`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","minimum":1,"definitions":{"a":{"maximum":1}}}`, `0`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := asserting.CompileSchema(json.RawMessage(schema))
		if err != nil || !s.HasFast() {
			return
		}
		v, err := call.ParseJSON(value, 1<<16)
		if err != nil || !s.Surely(v) {
			return
		}
		for _, violation := range s.ValidateByLibrary(v) {
			if !strings.Contains(violation.Description, "too complex to check") {
				t.Errorf("the fast check takes what the library refuses: %+v", violation)
			}
		}
	})
}
