package registry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
)

func compile(t testing.TB, schema string) *registry.Schema {
	t.Helper()
	s, err := registry.CompileSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatalf("CompileSchema(%.200s) = %v", schema, err)
	}
	return s
}

func parse(t testing.TB, text string) any {
	t.Helper()
	v, err := call.ParseJSON(text, 0)
	if err != nil {
		t.Fatalf("ParseJSON(%.200s) = %v", text, err)
	}
	return v
}

func TestViolations(t *testing.T) {
	tests := []struct {
		name, schema, value string
		want                []string // field: description
	}{
		{"type", `{"properties":{"n":{"type":"integer"}}}`, `{"n":"5"}`, []string{`n: is "5"; want an integer`}},
		{"integer with a fraction of zero", `{"type":"integer"}`, `5.0`, nil},
		{"types", `{"properties":{"n":{"type":["string","null"]}}}`, `{"n":true}`, []string{`n: is true; want a string or null`}},
		{"missing", `{"properties":{"path":{"type":"string"}},"required":["path","x"]}`, `{}`, []string{`path: is required (a string)`, `x: is required`}},
		{"unknown", `{"properties":{"path":{},"mode":{}},"patternProperties":{"^x-":{}},"additionalProperties":false}`, `{"pth":1,"x-a":1}`, []string{`pth: is not known here; known are mode, path`}},
		{"unknown by a false schema", `{"properties":{"a":false}}`, `{"a":1}`, []string{`a: is not allowed here`}},
		{"member named type under a false schema", `{"properties":{"type":false}}`, `{"type":1}`, []string{`type: is not allowed here`}},
		{"path", `{"properties":{"items":{"items":{"required":["name"],"properties":{"name":{"type":"string"}}}}}}`, `{"items":[{"name":""},{"name":""},{"name":7}]}`, []string{`items[2].name: is 7; want a string`}},
		{"odd names", `{"properties":{"a/b ~":{"properties":{"ü%2F":{"minLength":2}}}}}`, `{"a/b ~":{"ü%2F":"x"}}`, []string{`["a/b ~"]["ü%2F"]: has 1 character; want at least 2`}},
		{"enum", `{"properties":{"m":{"enum":["a","b",1]}}}`, `{"m":"c"}`, []string{`m: is "c"; want one of "a", "b", 1`}},
		{"const", `{"properties":{"m":{"const":"a"}}}`, `{"m":"c"}`, []string{`m: is "c"; want "a"`}},
		{"minimum", `{"properties":{"n":{"minimum":1}}}`, `{"n":0}`, []string{`n: is 0; want at least 1`}},
		{"exact above 2^53", `{"maximum":9007199254740992}`, `9007199254740993`, []string{`: is 9007199254740993; want at most 9007199254740992`}},
		{"exclusive", `{"exclusiveMinimum":1,"exclusiveMaximum":1}`, `1`, []string{`: is 1; want less than 1`, `: is 1; want more than 1`}},
		{"multiple", `{"multipleOf":0.1}`, `0.25`, []string{`: is 0.25; want a multiple of 0.1`}},
		{"items", `{"maxItems":1,"uniqueItems":true}`, `[1,1.0]`, []string{`: has 2 items; want at most 1`, `: holds an item twice; want each once (items at index 0 and 1 are equal)`}},
		{"members", `{"minProperties":1}`, `{}`, []string{`: has 0 members; want at least 1`}},
		{"characters, not bytes", `{"maxLength":2}`, `"üü"`, nil},
		{"pattern", `{"properties":{"p":{"pattern":"^[a-z]+$"}}}`, `{"p":"A"}`, []string{`p: is "A"; want a match of the regular expression "^[a-z]+$"`}},
		{"pattern of names", `{"propertyNames":{"pattern":"^[a-z]+$"}}`, `{"A":1}`, []string{`A: is "A"; want a match of the regular expression "^[a-z]+$"`}},
		{"format is asserted in draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"at":{"format":"date-time"}}}`, `{"at":"yesterday"}`, []string{`at: is "yesterday"; want the format "date-time"`}},
		{"format is asserted in 2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","format":"regex"}`, `"(a"`, []string{`: is "(a"; want the format "regex"`}},
		{"format describes in 2020-12", `{"$schema":"https://json-schema.org/draft/2020-12/schema","format":"date"}`, `"x"`, nil},
		{"format describes where no draft is named", `{"properties":{"at":{"format":"date-time"}}}`, `{"at":"yesterday"}`, nil},
		{"empty enum", `{"properties":{"m":{"enum":[]}}}`, `{"m":1}`, []string{`m: is not allowed here`}},
		{"empty enum that is not used", `{"properties":{"m":{"enum":[]}}}`, `{}`, nil},
		{"pattern with spaces of ECMA-262", `{"pattern":"^a\\sb[^\\S]$"}`, "\"a\u00a0b\ufeff\"", nil},
		{"not", `{"not":{"type":"string"}}`, `"a"`, []string{`: is "a", which is excluded`}},
		{"forms by type", `{"properties":{"v":{"anyOf":[{"type":"string"},{"type":"null"},{"type":["integer","null"]}]}}}`, `{"v":true}`, []string{`v: is true; want a string or null or an integer`}},
		{"the one form that is near", `{"anyOf":[{"type":"null"},{"type":"object","required":["a"]}]}`, `{}`, []string{`a: is required`}},
		{"the form with the right constant", `{"oneOf":[{"properties":{"op":{"const":"read"}},"required":["path"]},{"properties":{"op":{"const":"list"}},"required":["dir","all"]}]}`, `{"op":"list"}`, []string{`all: is required`, `dir: is required`}},
		{"several forms", `{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, []string{`: fits none of the allowed forms: (1) a is required; (2) b is required`}},
		{"too many forms", `{"oneOf":[{"type":"string"},{"minLength":1}]}`, `"a"`, []string{`: fits more than one of the allowed forms; want exactly one`}},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{`: property 'b' is required, if 'a' property exists`}},
		{"contains", `{"contains":{"const":1}}`, `[2]`, []string{`: has the wrong number of matching items (valid must be >= 1, but got 0)`}},
		{"through a reference", `{"$defs":{"p":{"type":"string","maxLength":1}},"properties":{"a":{"$ref":"#/$defs/p"}}}`, `{"a":"bb"}`, []string{`a: has 2 characters; want at most 1`}},
		{"through an anchor", `{"$defs":{"p":{"$anchor":"name","type":"string"}},"properties":{"a":{"$ref":"#name"}}}`, `{"a":1}`, []string{`a: is 1; want a string`}},
		{"if", `{"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]}}`, `{"a":1}`, []string{`b: is required`}},
		{"unevaluated", `{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1,"b":1}`, []string{`b: is not allowed here`}},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `[1]`, []string{`[0]: is 1; want a string`}},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `1`, []string{`: is 1; want more than true`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, v := range compile(t, tt.schema).Validate(parse(t, tt.value)) {
				got = append(got, v.Field+": "+v.Description)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("violations (-want +got):\n%s", d)
			}
		})
	}
}

// With AssertFormats, formats are asserted in 2020-12, too.
func TestFormatsAreAsserted(t *testing.T) {
	s, err := registry.New(registry.Config{AssertFormats: true}).CompileSchema(json.RawMessage(`{"format":"date"}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Validate("2026-01-02") != nil || s.Validate("yesterday") == nil || !s.Surely("2026-01-02") || s.Surely("yesterday") {
		t.Error("the format is not asserted")
	}
}

func TestViolationsAreBoundedAndStable(t *testing.T) {
	value := "{"
	for i := range 100 {
		value += fmt.Sprintf(`"k%02d":%q,`, i, strings.Repeat("ü", 500))
	}
	value = strings.TrimSuffix(value, ",") + "}"
	s := compile(t, `{"additionalProperties":{"type":"integer"}}`)
	first := s.Validate(parse(t, value))
	if len(first) != 16 || first[0].Field != "k00" || first[14].Field != "k14" || first[15].Description != "and 85 more violations" {
		t.Errorf("violations = %+v, want the first 15 by name and a count", first)
	}
	for range 5 {
		if d := cmp.Diff(first, s.Validate(parse(t, value))); d != "" {
			t.Fatalf("violations differ from run to run:\n%s", d)
		}
	}
	for _, v := range first {
		if len(v.Description) > 200 {
			t.Errorf("description of %d bytes: a big value makes a big message", len(v.Description))
		}
	}
}

// T71: a hostile schema is refused at registration, within a second and without access to the network or files.
func TestHostileSchemasAreRefused(t *testing.T) {
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	doubling := func(levels int) string { // Each level doubles the work of the level below.
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
		for i := range levels {
			fmt.Fprintf(&b, `"l%d":{"anyOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
		}
		fmt.Fprintf(&b, `"l%d":{"type":"string"}}}`, levels)
		return b.String()
	}
	wide := func(n int) string { return `{"anyOf":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}` }
	chain := func(n int) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/l0","$defs":{`)
		for i := range n {
			fmt.Fprintf(&b, `"l%d":{"$ref":"#/$defs/l%d"},`, i, i+1)
		}
		fmt.Fprintf(&b, `"l%d":{}}}`, n)
		return b.String()
	}
	tests := []struct{ name, schema, reason string }{
		{"remote reference", `{"$ref":"` + srv.URL + `/s.json"}`, "must begin with #"},
		{"remote reference deep inside", `{"properties":{"a":{"items":{"$ref":"` + srv.URL + `/s.json"}}}}`, "must begin with #"},
		{"remote reference outside the known locations", `{"$ref":"#/x/y","x":{"y":{"$ref":"` + srv.URL + `/s.json"}}}`, "must begin with #"},
		{"file reference", `{"$ref":"file://` + file + `"}`, "must begin with #"},
		{"file reference by a relative path", `{"$ref":"s.json"}`, "must begin with #"},
		{"file reference through an id", `{"$id":"file://` + file + `","$ref":"schema.json"}`, "must begin with #"},
		{"an id inside changes what # means", `{"properties":{"a":{"$id":"` + srv.URL + `/s","$ref":"#/$defs/x"}}}`, "only the schema itself"},
		{"draft 4 id inside", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"id":"` + srv.URL + `/s"}}}`, "only the schema itself"},
		{"remote draft", `{"$schema":"` + srv.URL + `/draft"}`, "unknown draft"},
		{"remote dynamic reference", `{"$dynamicRef":"` + srv.URL + `/s#x"}`, "must begin with #"},
		{"the metaschema", `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, "must begin with #"},
		{"endless reference", `{"$ref":"#"}`, "never end"},
		{"endless pair", `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "never end"},
		{"endless where nothing refers", `{"$defs":{"a":{"$ref":"#/$defs/a"}}}`, "never end"},
		{"endless dynamic reference", `{"$dynamicRef":"#a","$defs":{"x":{"$dynamicAnchor":"a","$dynamicRef":"#a"}}}`, "infinite loop"},
		{"dangling reference", `{"$ref":"#/$defs/a"}`, "has no target"},
		{"2^20 by doubling", doubling(20), "inside each other"},
		{"2^15 by doubling", doubling(15), "would visit more than"},
		{"2^64 by doubling", doubling(64), "inside each other"},
		{"2^20 alternatives", wide(1 << 20), "limit is 262144"},
		{"many alternatives", wide(5000), "limit is 256"},
		{"long chain", chain(1000), "inside each other"},
		{"10 MB", `{"description":"` + strings.Repeat("x", 10<<20) + `"}`, "limit is 262144"},
		{"deep", strings.Repeat(`{"not":`, 100) + "{}" + strings.Repeat("}", 100), "nested deeper"},
		{"huge number", `{"type":"integer","multipleOf":1e20000000}`, "exponent"},
		{"count that overflows", `{"maxLength":1e300}`, "2^53"},
		{"lookahead", `{"pattern":"(?=a)b"}`, "RE2"},
		{"backreference", `{"patternProperties":{"(a)\\1":{}}}`, "RE2"},
		{"huge repetition", `{"pattern":"((a{100}){10}){999}"}`, "RE2"},
		{"huge pattern", `{"pattern":"` + strings.Repeat("(a|b)", 1000) + `"}`, "limit is 1024"},
		{"pattern of many steps", `{"pattern":"` + strings.Repeat("[a-z]{900}", 10) + `"}`, "too big"},
		{"contentSchema that draft 7 would run", `{"$schema":"http://json-schema.org/draft-07/schema#","contentMediaType":"application/json","contentSchema":{"type":"integer"}}`, "contentSchema"},
		{"regexProperties", `{"regexProperties":true}`, "not a keyword"},
		{"our own keyword", `{"x-toold-pattern":"("}`, "is reserved"},
		{"duplicate member", `{"type":"object","type":"string"}`, "twice"},
		{"not a schema", `{"type":"strng"}`, "not a schema"},
		{"not a schema inside", `{"properties":{"a":7}}`, "an object, true or false"},
		{"no JSON", `{"type":`, "cut off"},
		{"empty", ``, "empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start := used(t)
			_, err := registry.CompileSchema(json.RawMessage(tt.schema))
			if took := used(t) - start; took > time.Second {
				t.Errorf("took %v, want under a second", took)
			}
			var refused *registry.SchemaError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("CompileSchema = %v, want a SchemaError with %q", err, tt.reason)
			}
			if err != nil && len(err.Error()) > 4096 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests reached the network", n)
	}
}

// used returns the CPU time of this process. Other processes on the machine do not affect it.
func used(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The largest accepted schemas compile within a second.
func TestBigSchemasCompileInTime(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := range 1990 {
		fmt.Fprintf(&b, `"p%04d":{"type":"string","pattern":"^[a-z]{1,9}$"},`, i)
	}
	schema := strings.TrimSuffix(b.String(), ",") + "}}"
	start := used(t)
	s := compile(t, schema)
	if took := used(t) - start; took > 5*time.Second { // takes under a second without the race detector
		t.Errorf("took %v", took)
	}
	if v := s.Validate(parse(t, `{"p0007":"A"}`)); len(v) != 1 {
		t.Errorf("violations = %v", v)
	}
}

// No value can make a check run long, with any schema.
func TestHostileValuesEndInTime(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 62) + "1" + strings.Repeat("}", 62)
	ones := "[" + strings.TrimSuffix(strings.Repeat("1,", 100_000), ",") + "]"
	tests := []struct{ name, schema, value string }{
		{"doubling with each level of the value", `{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}},"maxProperties":9}]}`, nested},
		{"each item against many forms", `{"items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"type":"integer","minimum":2},`, 200), ",") + `]}}`, ones},
		{"each item against a long enum", `{"items":{"enum":[` + strings.TrimSuffix(strings.Repeat(`2,`, 50_000), ",") + `]}}`, ones},
		{"nested quantifiers", `{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 200_000) + `!"`},
		{"many patterns on a long text", `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"(x+x+)+y[a-z]{500}"},`, 200), ",") + `]}`, `"` + strings.Repeat("x", 200_000) + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, tt.schema)
			v := parse(t, tt.value)
			start := used(t)
			violations := s.Validate(v)
			took := used(t) - start
			if took > 10*time.Second { // takes much less than one second without the race detector
				t.Errorf("took %v", took)
			}
			if len(violations) == 0 {
				t.Error("no violation")
			}
			t.Logf("%v: %.200v", took.Round(time.Millisecond), violations)
		})
	}
}

// Recursion is allowed when it goes into members.
func TestRecursiveSchema(t *testing.T) {
	s := compile(t, `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v"],"additionalProperties":false}}}`)
	if v := s.Validate(parse(t, `{"v":1,"next":{"v":2,"next":null}}`)); v != nil {
		t.Errorf("violations = %v", v)
	}
	want := []tool.Violation{{Field: "next.next.v", Description: `is "3"; want an integer`}}
	if d := cmp.Diff(want, s.Validate(parse(t, `{"v":1,"next":{"v":2,"next":{"v":"3"}}}`))); d != "" {
		t.Error(d)
	}
	long := strings.Repeat(`{"v":1,"next":`, 60) + "null" + strings.Repeat("}", 60)
	if v := s.Validate(parse(t, long)); v != nil {
		t.Errorf("60 levels: %v", v)
	}
}

// Validate refuses a value that cannot come from the strict parser. It does not compute with such a value.
func TestValuesThatAreNoJSON(t *testing.T) {
	s := compile(t, `{"type":["integer","object","array"]}`)
	deep := any("x")
	for range 200 {
		deep = []any{deep}
	}
	for name, v := range map[string]any{
		"huge exponent": json.Number("1e20000000"),
		"long token":    json.Number(strings.Repeat("9", 100)),
		"no number":     json.Number("abc"),
		"empty number":  json.Number(""),
		"Go int":        7,
		"struct":        struct{}{},
		"inside":        map[string]any{"a": []any{json.Number("1e999999999")}},
		"deep":          deep,
	} {
		if got := s.Validate(v); len(got) != 1 {
			t.Errorf("%s: violations = %v, want one", name, got)
		}
	}
}

func TestUnknownVocabularyIsNotFetched(t *testing.T) {
	// The listener replaces the network. A refused reference must not even resolve a name.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if _, err := registry.CompileSchema(json.RawMessage(`{"$vocabulary":{"http://` + ln.Addr().String() + `/v":true},"$schema":"https://json-schema.org/draft/2020-12/schema"}`)); err == nil {
		t.Error("unknown vocabulary accepted")
	}
	_ = ln.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Millisecond))
	if c, err := ln.Accept(); err == nil {
		_ = c.Close()
		t.Error("the network was used")
	}
}
