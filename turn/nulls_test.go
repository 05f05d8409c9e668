package turn_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry/export"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/turn"
)

func TestRemoveNulls(t *testing.T) {
	object := func(properties string, more ...string) string {
		return `{"type":"object","properties":{` + properties + `}` + strings.Join(append([]string{""}, more...), ",") + `}`
	}
	text, number := `{"type":"string"}`, `{"type":"number"}`
	actions := `{"type":"object","properties":{"dry":{"type":"boolean"}},"oneOf":[
		{"properties":{"action":{"const":"open"},"path":{"type":"string"}},"required":["action","path"]},
		{"properties":{"action":{"const":"close"},"id":{"type":"integer"}},"required":["action","id"]}]}`
	tests := []struct {
		name, schema, in, want string
	}{
		{"first", object(`"a":` + text + `,"b":` + text), `{"a":null,"b":"x"}`, `{"b":"x"}`},
		{"last", object(`"a":` + text + `,"b":` + text), `{ "b" : "x" , "a" : null }`, `{ "b" : "x" }`},
		{"middle", object(`"a":` + text + `,"b":` + text + `,"c":` + text), `{"a":"1", "b" :null, "c":"2"}`, `{"a":"1", "c":"2"}`},
		{"all", object(`"a":` + text + `,"b":` + text), ` { "a":null, "b":null } `, ` {  } `},
		{"two at the end", object(`"a":` + text + `,"b":` + text + `,"c":` + text), `{"a":"x","b":null,"c":null}`, `{"a":"x"}`},
		{"every other", object(`"a":` + text + `,"b":` + text + `,"c":` + text + `,"d":` + text), `{"a":null,"b":"1","c":null,"d":"2"}`, `{"b":"1","d":"2"}`},
		{"other bytes stay", object(`"a":` + number + `,"b":` + text + `,"c":` + text), `{"a":1e2,"b":"\u00e4\/","c":null}`, `{"a":1e2,"b":"\u00e4\/"}`},
		{"an escaped name", object(`"a":` + text), `{"\u0061":null}`, `{}`},
		{"nothing to remove", object(`"a":` + text), `{"a":"x"}`, ``},
		{"required", object(`"a":`+text, `"required":["a"]`), `{"a":null}`, ``},
		{"accepts null", object(`"a":{"type":["string","null"]}`), `{"a":null}`, ``},
		{"an alternative accepts null", object(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`), `{"a":null}`, ``},
		{"no alternative accepts null", object(`"a":{"anyOf":[{"type":"string"},{"type":"number"}]}`), `{"a":null}`, `{}`},
		{"an enum with null", object(`"a":{"enum":["x",null]}`), `{"a":null}`, ``},
		{"an enum without null", object(`"a":{"enum":["x","y"]}`), `{"a":null}`, `{}`},
		{"an enum of a nullable type", object(`"a":{"type":["string","null"],"enum":["x"]}`), `{"a":null}`, `{}`},
		{"const", object(`"a":{"const":"x"}`), `{"a":null}`, `{}`},
		{"const null", object(`"a":{"const":null}`), `{"a":null}`, ``},
		{"any value", object(`"a":{}`), `{"a":null}`, ``},
		{"any other value has no strict form", object(`"a":` + text + `,"b":{}`), `{"a":null,"b":1}`, ``},
		{"free names have no strict form", object(`"a":` + text + `,"b":{"type":"object"}`), `{"a":null,"b":{}}`, ``},
		{"a list of any has no strict form", object(`"a":` + text + `,"b":{"type":"array"}`), `{"a":null,"b":[]}`, ``},
		{"a tuple has no strict form", object(`"a":` + text + `,"b":{"type":"array","prefixItems":[{"type":"string"}]}`), `{"a":null,"b":[]}`, ``},
		{"not declared", object(`"a":` + text), `{"b":null,"A":null}`, ``},
		{"must be absent", object(`"a":false,"b":` + text), `{"a":null,"b":null}`, `{"a":null}`},
		{"nested", object(`"a":` + object(`"b":`+text)), `{"a":{"b":null}}`, `{"a":{}}`},
		{"nested in a list", object(`"a":{"type":"array","items":` + object(`"b":`+text) + `}`), `{"a":[{"b":null},{"b":"x"},{ "b":null }]}`, `{"a":[{},{"b":"x"},{  }]}`},
		{"a list element", object(`"a":{"type":"array","items":` + text + `}`), `{"a":[null]}`, ``},
		{"a reference", object(`"a":{"$ref":"#/$defs/d"}`, `"$defs":{"d":`+object(`"b":`+text)+`}`), `{"a":{"b":null}}`, `{"a":{}}`},
		{"the reference itself", object(`"a":{"$ref":"#/$defs/d"}`, `"$defs":{"d":`+object(`"b":`+text)+`}`), `{"a":null}`, `{}`},
		{"allOf of one", object(`"a":{"allOf":[{"$ref":"#/$defs/d"}],"description":"x"}`, `"$defs":{"d":`+object(`"b":`+text)+`}`), `{"a":{"b":null}}`, `{"a":{}}`},
		{"optional object", object(`"a":{"anyOf":[` + object(`"b":`+text) + `,{"type":"null"}]}`), `{"a":{"b":null}}`, `{"a":{}}`},
		{"one of two objects", object(`"a":{"anyOf":[` + object(`"b":`+text) + `,` + object(`"c":`+text) + `]}`), `{"a":{"b":null}}`, ``},
		{"a schema that contains itself", object(`"a":{"$ref":"#"},"b":` + text), `{"b":null}`, ``},
		{"a reference to elsewhere", object(`"a":{"$ref":"https://example.com/x"},"b":` + text), `{"b":null}`, ``},
		{"alternatives of the whole", object(`"a":`+text, `"anyOf":[{"required":["a"]},{}]`), `{"a":null}`, `{}`},
		{"actions", actions, `{"action":"open","path":"x","id":null,"dry":null}`, `{"action":"open","path":"x"}`},
		{"another action", actions, `{"action":"close","path":null,"id":1,"dry":true}`, `{"action":"close","id":1,"dry":true}`},
		{"required by all alternatives", actions, `{"action":null,"path":"x"}`, ``},
		{"one declaration accepts null", `{"oneOf":[` + object(`"a":`+text) + `,` + object(`"a":{"type":["string","null"]}`) + `]}`, `{"a":null}`, ``},
		{"nested in an alternative", `{"anyOf":[` + object(`"a":`+object(`"b":`+text)) + `,` + object(`"c":`+text) + `]}`, `{"a":{"b":null},"c":null}`, `{"a":{}}`},
		{"an alternative that is no object", `{"anyOf":[` + object(`"a":`+text) + `,` + text + `]}`, `{"a":null}`, ``},
		{"alternatives of alternatives", `{"anyOf":[{"anyOf":[` + object(`"a":`+text) + `]}]}`, `{"a":null}`, ``},
		{"anyOf beside oneOf", object(`"a":`+text, `"anyOf":[{}],"oneOf":[{}]`), `{"a":null}`, ``},
		{"names depend on each other", object(`"a":`+text+`,"b":`+text, `"dependentRequired":{"a":["b"]}`), `{"a":null}`, ``},
		{"conditions", object(`"a":`+text, `"if":{"required":["a"]},"then":{"required":["b"]}`), `{"a":null}`, ``},
		{"required without a property", object(`"a":`+text, `"required":["b"]`), `{"a":null}`, ``},
		{"deeper than strict mode", object(`"a":` + text + `,"b":` + strings.Repeat(`{"type":"array","items":`, 10) + text + strings.Repeat(`}`, 10)), `{"a":null}`, ``},
		{"as deep as strict mode", object(`"a":` + text + `,"b":` + strings.Repeat(`{"type":"array","items":`, 8) + text + strings.Repeat(`}`, 8)), `{"a":null}`, `{}`},
		{"no schema", ``, `{"a":null}`, ``},
		{"true", `true`, `{"a":null}`, ``},
		{"no arguments", object(`"a":` + text), ``, ``},
		{"null", object(`"a":` + text), `null`, ``},
		{"not an object", object(`"a":` + text), `[{"a":null}]`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.in
			}
			got, changed, err := turn.RemoveNulls([]byte(tt.schema), tt.in)
			if err != nil || got != want || changed != (want != tt.in) {
				t.Errorf("RemoveNulls(%s, %s) = %s, %t, %v; want %s", tt.schema, tt.in, got, changed, err, want)
			}
		})
	}
	for _, broken := range []string{`{"a":nul`, `{"a":null,"a":null}`, `{"a":null} x`} {
		if got, changed, err := turn.RemoveNulls([]byte(object(`"a":`+text)), broken); err == nil || changed || got != broken {
			t.Errorf("RemoveNulls of %s = %s, %t, %v", broken, got, changed, err)
		}
	}
	if _, _, err := turn.RemoveNulls([]byte(`{`), `{}`); err == nil {
		t.Error("a broken schema is accepted")
	}
}

// anySchema draws schemas that use only a few property names. Random arguments therefore often contain properties of the schema.
func anySchema(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.SampledFrom([]int{0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10}).Draw(t, "kind")
		if depth == 3 && rapid.IntRange(0, 5).Draw(t, "root") > 0 {
			kind = 10
		}
		if depth == 0 {
			kind %= 6
		}
		sub := func() any { return anySchema(depth-1).Draw(t, "below") }
		switch kind {
		case 0, 1:
			return map[string]any{"type": "string"}
		case 2:
			return map[string]any{"type": []any{"integer", "null"}}
		case 3:
			return map[string]any{"enum": rapid.SampledFrom([][]any{{"x"}, {"x", nil}, {1}, {map[string]any{}}}).Draw(t, "enum")}
		case 4:
			return map[string]any{"$ref": rapid.SampledFrom([]string{"#/$defs/d", "#", "#/$defs/none"}).Draw(t, "ref")}
		case 5:
			return rapid.SampledFrom([]any{true, false, map[string]any{}, map[string]any{"type": "null"}, map[string]any{"type": "object"}, map[string]any{"const": "x"},
				map[string]any{"type": "object", "additionalProperties": false}}).Draw(t, "odd")
		case 6:
			return map[string]any{"anyOf": []any{sub(), sub()}}
		case 7:
			return map[string]any{"oneOf": []any{sub(), map[string]any{"type": "null"}}, "description": "x"}
		case 8:
			return map[string]any{"allOf": []any{sub()}}
		case 9:
			return map[string]any{"type": "array", "items": sub()}
		}
		o := map[string]any{"type": "object", "properties": map[string]any{"a": sub(), "b": sub()}}
		if depth == 3 && rapid.IntRange(0, 3).Draw(t, "alternatives") == 0 {
			o[rapid.SampledFrom([]string{"anyOf", "oneOf"}).Draw(t, "alternative")] = []any{anyAction().Draw(t, "one"), anyAction().Draw(t, "other")}
			o["properties"] = map[string]any{rapid.SampledFrom([]string{"a", "b", "d"}).Draw(t, "name"): anySchema(0).Draw(t, "own")}
		}
		switch rapid.IntRange(0, 7).Draw(t, "more") {
		case 0:
			o["required"] = []any{"a"}
		case 1:
			o["required"] = []any{"c"}
		case 2:
			o["additionalProperties"] = false
		case 3:
			delete(o, "type")
		case 4:
			o["patternProperties"] = map[string]any{"a": sub()}
		case 5:
			o["anyOf"] = []any{sub(), sub()}
		}
		return o
	})
}

// anyAction draws an object that is an alternative at the root of a schema.
func anyAction() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		o, properties := map[string]any{}, map[string]any{}
		for _, name := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, name) {
				properties[name] = anySchema(1).Draw(t, "property")
			}
		}
		o["properties"] = properties
		if rapid.Bool().Draw(t, "type") {
			o["type"] = "object"
		}
		if rapid.Bool().Draw(t, "closed") {
			o["additionalProperties"] = false
		}
		if rapid.Bool().Draw(t, "required") {
			o["required"] = []any{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")}
		}
		return o
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 6).Draw(t, "kind")
		if depth == 0 {
			kind %= 3
		}
		switch kind {
		case 0, 1:
			return nil
		case 2:
			return "x"
		case 3:
			return []any{anyValue(depth-1).Draw(t, "item"), anyValue(depth-1).Draw(t, "item")}
		}
		o := map[string]any{}
		for _, name := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, name) {
				o[name] = anyValue(depth-1).Draw(t, "member")
			}
		}
		return o
	})
}

// TestOnlyNullsOfStrictMode (T138) checks that the removal of a null never changes the meaning of arguments. It compares RemoveNulls with
// the export. RemoveNulls may remove only the nulls that [export.Tool.Nulls] lists, and none from the arguments of a tool that was exported
// without strict mode.
func TestOnlyNullsOfStrictMode(t *testing.T) {
	removed := 0
	rapid.Check(t, func(t *rapid.T) {
		for range 30 { // Repeat, because only a few schemas have a strict form.
			removed += compareWithExport(t)
		}
	})
	if removed == 0 {
		t.Error("no null was removed in any case")
	}
}

// compareWithExport returns how many nulls were removed.
func compareWithExport(t *rapid.T) int {
	root := anySchema(3).Draw(t, "schema")
	if o, ok := root.(map[string]any); ok {
		o["$defs"] = map[string]any{"d": anySchema(1).Draw(t, "definition")}
	}
	schema := []byte(encoded(t, root))
	list, err := export.Export(export.OpenAIStrict, []*tool.Descriptor{{ID: "t", Parameters: schema}})
	if err != nil {
		t.Fatal(err)
	}
	args := encoded(t, anyValue(4).Draw(t, "arguments"))
	got, changed, err := turn.RemoveNulls(schema, args)
	if err != nil {
		t.Fatal(err)
	}
	removed := differences(t, "", decode(t, args), decode(t, got))
	if changed != (len(removed) > 0) {
		t.Fatalf("changed is %t, and %v is removed", changed, removed)
	}
	if changed && len(list.Tools) == 0 {
		t.Fatalf("the tool is not exported, and %v is removed", removed)
	}
	for _, pointer := range removed {
		exported := list.Tools[0]
		if strict := strings.Contains(string(exported.Definition), `"strict":true`); !strict || !slices.Contains(exported.Nulls, pointer) {
			t.Fatalf("strict is %t, its nulls are %v, and %s is removed from %s", strict, exported.Nulls, pointer, args)
		}
	}
	return len(removed)
}

// TestAllNullsOfPlainSchemas checks that no null of strict mode remains when the schema has only objects, lists, references and optional
// objects.
func TestAllNullsOfPlainSchemas(t *testing.T) {
	schema := `{"type":"object","required":["r"],"properties":{"r":{"type":"string"},"s":{"type":"string","minLength":1},"l":{"type":"array","items":{"$ref":"#/$defs/d"}},
		"o":{"anyOf":[{"$ref":"#/$defs/d"},{"type":"null"}]},"n":{"type":["number","null"]},"e":{"type":"string","enum":["x"]}},
		"$defs":{"d":{"type":"object","properties":{"x":{"type":"integer"},"y":{"oneOf":[{"type":"string"},{"type":"boolean"}]}}}}}`
	list, err := export.Export(export.OpenAIStrict, []*tool.Descriptor{{ID: "t", Parameters: json.RawMessage(schema)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/e", "/l", "/l/*/x", "/l/*/y", "/o/x", "/o/y", "/s"}
	if !slices.Equal(list.Tools[0].Nulls, want) {
		t.Fatalf("the export lists %v", list.Tools[0].Nulls)
	}
	for in, want := range map[string]string{
		`{"r":"x","s":null,"l":null,"o":null,"n":null,"e":null}`:                                             `{"r":"x","o":null,"n":null}`,
		`{"r":"x","s":"y","l":[{"x":null,"y":null},{"x":1,"y":null}],"o":{"x":null,"y":true},"n":1,"e":"x"}`: `{"r":"x","s":"y","l":[{},{"x":1}],"o":{"y":true},"n":1,"e":"x"}`,
	} {
		if got, _, err := turn.RemoveNulls([]byte(schema), in); err != nil || got != want {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

// differences returns the JSON pointers of the members that a has and b lacks. These members must be null in a. Everything else must be
// equal.
func differences(t fataler, at string, a, b any) []string {
	t.Helper()
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(b) > len(a) {
			t.Fatalf("%s is %v", at, b)
		}
		var out []string
		for name, v := range a {
			if w, there := b[name]; there {
				out = append(out, differences(t, at+"/"+name, v, w)...)
			} else if out = append(out, at+"/"+name); v != nil {
				t.Fatalf("%s/%s was %v and is removed", at, name, v)
			}
		}
		return out
	case []any:
		b, ok := b.([]any)
		if !ok || len(b) != len(a) {
			t.Fatalf("%s is %v", at, b)
		}
		var out []string
		for i := range a {
			out = append(out, differences(t, at+"/*", a[i], b[i])...)
		}
		return out
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("%s was %v and is %v", at, a, b)
	}
	return nil
}

func decode(t fataler, text string) any {
	t.Helper()
	v, err := call.ParseJSON(text, 0)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func encoded(t fataler, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(b)
}

// FuzzRemoveNulls checks that RemoveNulls changes nothing in the arguments except the nulls that it removes.
func FuzzRemoveNulls(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"string"},"b":{"type":"array","items":{"properties":{"c":{"enum":[1]}}}}}}`, `{"a":null,"b":[{"c":null}]}`)
	f.Add(`{"$ref":"#/$defs/d","$defs":{"d":{"type":"object","properties":{"x":{"$ref":"#/$defs/d"}}}}}`, `{"x":null}`)
	f.Fuzz(func(t *testing.T, schema, arguments string) {
		got, changed, err := turn.RemoveNulls([]byte(schema), arguments)
		if err != nil || !changed {
			if got != arguments || changed {
				t.Fatal("changed after an error")
			}
			return
		}
		if removed := differences(t, "", decode(t, arguments), decode(t, got)); len(removed) == 0 {
			t.Fatal(fmt.Sprint("nothing is removed from ", arguments))
		}
	})
}
