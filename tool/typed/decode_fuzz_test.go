package typed_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

type fuzzArgs struct {
	S string            `json:"s"`
	I int               `json:"i"`
	U uint16            `json:"u"`
	F float64           `json:"f"`
	B bool              `json:"b"`
	L []fuzzArgs        `json:"l"`
	M map[string]string `json:"m"`
	P *fuzzArgs         `json:"p"`
	A any               `json:"a"`
	R json.RawMessage   `json:"r"`
	Y []byte            `json:"y"`
}

// FuzzDecode compares Decode with encoding/json. When both accept a text, their values must be equal. When Decode rejects a text that
// encoding/json accepts, the reason must be a documented difference.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"s":"a","i":-1,"u":65535,"f":0.5,"b":true,"l":[{"i":1}],"m":{"k":"v"},"p":{"p":null},"a":{"x":[1,"\u2028"]},"r":[1.0, 2],"y":"aGk="}`,
		`{"i":1.0,"u":1e2,"f":1e300}`, `{"i":1.5}`, `{"u":65536}`, `{"u":-0}`, `{"f":1e400}`, `{"S":"case"}`, `{"s":null}`, `{"y":[1,2,300]}`, `[]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var value any
		if d.Decode(&value) != nil {
			return
		}
		canonical, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var ours, theirs fuzzArgs
		ourErr := typed.Decode(value, &ours)
		d = json.NewDecoder(strings.NewReader(string(canonical)))
		d.UseNumber()
		theirErr := d.Decode(&theirs)
		switch {
		case looserThere(value):
		case theirErr != nil && ourErr == nil && !strings.ContainsAny(text, ".eE-"): // Decode also accepts tokens such as 1.0, 1e2 and -0 for integers.
			t.Fatalf("%q: only encoding/json refuses it: %v", text, theirErr)
		case theirErr == nil && ourErr != nil:
			t.Fatalf("%q: only Decode refuses it: %v", text, ourErr)
		case theirErr == nil && !equalArgs(ours, theirs):
			t.Fatalf("%q: got %+v, encoding/json %+v", text, ours, theirs)
		}
	})
}

// looserThere reports whether encoding/json accepts a part of the value that Decode rejects: a null, or a name whose letters have another
// case.
func looserThere(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case []any:
		for _, element := range value {
			if looserThere(element) {
				return true
			}
		}
	case map[string]any:
		for name, member := range value {
			if len(name) == 1 && name != strings.ToLower(name) || name == "ſ" || looserThere(member) {
				return true
			}
		}
	}
	return false
}

// equalArgs compares the JSON forms of a and b, because raw messages may contain the same text with different escapes.
func equalArgs(a, b fuzzArgs) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

type tenProperties struct {
	Path      string   `json:"path"`
	Pattern   string   `json:"pattern"`
	Limit     int      `json:"limit"`
	Offset    int      `json:"offset"`
	Recursive bool     `json:"recursive"`
	Follow    bool     `json:"follow"`
	Encoding  string   `json:"encoding"`
	Glob      []string `json:"glob"`
	Context   *int     `json:"context"`
	X         float64  `json:"x"`
}

const tenText = `{"path":"src/server/handler.go","pattern":"func [A-Z]","limit":100,"offset":2500,"recursive":true,` +
	`"follow":false,"encoding":"utf-8","glob":["*.go","*.proto"],"context":3,"x":0.5}`

// BenchmarkDecode/tool measures only the cost of each call, because the tool prepares its decoder once.
func BenchmarkDecode(b *testing.B) {
	value := parsed(b, tenText).(map[string]any)
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := typed.Decode(value, new(tenProperties)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("tool", func(b *testing.B) {
		ten := typed.New(tool.Descriptor{ID: "ten"}, func(context.Context, *tool.Call, tenProperties) (*tool.Result, error) {
			return tool.Text("ran"), nil
		}).(tool.Validator)
		arguments := tool.NewArguments(tenText, value)
		b.ReportAllocs()
		for b.Loop() {
			if err := ten.Validate(arguments); err != nil {
				b.Fatal(err)
			}
		}
	})
}
