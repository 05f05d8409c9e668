package tool_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/tool"
)

// anyResult draws results with every field.
func anyResult() *rapid.Generator[tool.Result] {
	return rapid.MakeCustom[tool.Result](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[time.Time]():       rapid.Map(rapid.Int64Range(0, 1<<33), func(s int64) any { return time.Unix(s, s%1e9).UTC() }),
		reflect.TypeFor[json.RawMessage](): rapid.SampledFrom([]any{json.RawMessage(nil), json.RawMessage(`{"n":1.0}`), json.RawMessage(`9007199254740993`)}),
	}})
}

// TestResultAsJSON checks that the JSON form of a result loses nothing, and that the page in the documentation lists each of its keys.
func TestResultAsJSON(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/results.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[tool.Result]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" || !strings.Contains(string(page), "| `"+key+"` |") {
			t.Errorf("the page does not list the key %q of %s", key, f.Name)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := anyResult().Draw(t, "result")
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got tool.Result
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		dropEmpty(reflect.ValueOf(&want))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v\nwant %+v\nfrom %s", got, want, text)
		}
	})
}

// dropEmpty replaces empty lists and maps by nil, because JSON leaves out both.
func dropEmpty(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			dropEmpty(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				dropEmpty(v.Field(i))
			}
		}
	case reflect.Slice, reflect.Map:
		if v.Len() == 0 {
			v.SetZero()
		}
		for i := 0; v.Kind() == reflect.Slice && i < v.Len(); i++ {
			dropEmpty(v.Index(i))
		}
	}
}
