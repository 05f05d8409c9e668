package typed_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool/typed"
)

type (
	named      string
	upper      string // has an UnmarshalText method
	point      struct{ X, Y int }
	anyOf      struct{ raw string } // has an UnmarshalJSON method
	pathArgs   struct{ Path string }
	limits     struct{ Limit, Shared int }
	inner      struct{ Limit, Deep int }
	base       struct{ Limit, Shared, Base int }
	taggedName struct {
		A int `json:"Limit"`
	}
	tree struct {
		Name     string           `json:"name"`
		Left     *tree            `json:"left,omitempty"`
		Children []tree           `json:"children"`
		ByName   map[string]*tree `json:"by_name"`
	}
	self struct {
		*self //nolint:unused // embedding itself is the point
		N     int
	}
	everything struct {
		Text    string
		Flag    bool
		Number  json.Number
		I8      int8
		I64     int64
		U8      uint8
		U64     uint64
		F32     float32
		F64     float64
		List    []string
		Pair    [2]int
		Map     map[string]int
		Pointer *int
		Any     any
		Bytes   []byte
		Renamed int `json:"other_name,omitempty"`
		Hidden  int `json:"-"`
		Dash    int `json:"-,"` //nolint:staticcheck // the member named -
	}
)

var errUpper = errors.New("must be upper case")

func (u *upper) UnmarshalText(text []byte) error {
	if *u = upper(text); strings.ToUpper(string(text)) != string(text) {
		return errUpper
	}
	return nil
}

func (a *anyOf) UnmarshalJSON(text []byte) error {
	a.raw = string(text)
	return nil
}

func TestDecode(t *testing.T) {
	seven := 7
	deep := &tree{Name: "b", Children: []tree{{Name: "c"}}}
	tests := []struct {
		name, text string
		want       any // expected value; the test decodes into a value of its type
	}{
		{"string", `"a"`, "a"},
		{"named string", `"a"`, named("a")},
		{"bool", `true`, true},
		{"number", `1.0`, json.Number("1.0")},
		{"smallest int64", `-9223372036854775808`, int64(-1 << 63)},
		{"largest uint64", `18446744073709551615`, uint64(1<<64 - 1)},
		{"above 2^53", `9007199254740993`, int64(9007199254740993)},
		{"int8 at its ends", `[-128,127]`, []int8{-128, 127}},
		{"integral tokens", `[1.0,1e2,1.50e1,-0,-0.0,0e-400,0.05e2,1200e-2,-3.0E+0]`, []int{1, 100, 15, 0, 0, 0, 5, 12, -3}},
		{"integral tokens, unsigned", `[1.0,1e2,-0,-0.00,0.0e99]`, []uint{1, 100, 0, 0, 0}},
		{"duration", `1500000000`, 1500 * time.Millisecond},
		{"floats", `[0.1,1,-1e300,1e-400]`, []float64{0.1, 1, -1e300, 0}},
		{"float32", `0.1`, float32(0.1)},
		{"any", `{"a":[1,null,"x",true]}`, any(map[string]any{"a": []any{json.Number("1"), nil, "x", true}})},
		{"any null", `null`, any(nil)},
		{"slice", `["a","b"]`, []string{"a", "b"}},
		{"empty slice", `[]`, []string{}},
		{"null slice", `null`, []string(nil)},
		{"array", `[1,2]`, [2]int{1, 2}},
		{"bytes as base64", `"aGk="`, []byte("hi")},
		{"bytes as numbers", `[104,105]`, []byte("hi")},
		{"map", `{"b":1,"a":2}`, map[string]int{"a": 2, "b": 1}},
		{"map with named keys", `{"a":1}`, map[named]int{"a": 1}},
		{"map with keys that decode themselves", `{"A":1}`, map[upper]int{"A": 1}},
		{"null map", `null`, map[string]int(nil)},
		{"pointer", `7`, &seven},
		{"null pointer", `null`, (*int)(nil)},
		{"time", `"2026-01-02T03:04:05Z"`, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{"text", `"A"`, upper("A")},
		{"address", `"10.0.0.1"`, netip.MustParseAddr("10.0.0.1")},
		{"big integer", `123456789012345678901234567890`, func() *big.Int {
			n, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
			return n
		}()},
		{"null to UnmarshalJSON", `null`, anyOf{"null"}},
		{"null to a pointer to UnmarshalJSON", `null`, (*anyOf)(nil)},
		{"raw message", `{"b": [1.0, "<\u2028>"], "a":"\\u2028"}`, json.RawMessage("{\"a\":\"\\\\u2028\",\"b\":[1.0,\"<\u2028>\"]}")},
		{"exact case, unknown members", `{"x":1,"X":2,"Z":3}`, point{X: 2}},
		{"recursive", `{"name":"a","left":{"name":"b","children":[{"name":"c"}]},"by_name":{"n":null}}`,
			tree{Name: "a", Left: deep, ByName: map[string]*tree{"n": nil}}},
		{"all kinds of fields", `{"Text":"t","Flag":true,"Number":1e2,"I8":1,"I64":2,"U8":3,"U64":4,"F32":0.5,"F64":1.5,"List":["l"],` +
			`"Pair":[1,2],"Map":{"m":1},"Pointer":7,"Any":null,"Bytes":"aGk=","other_name":5,"Renamed":6,"Hidden":7,"-":8}`,
			everything{"t", true, "1e2", 1, 2, 3, 4, .5, 1.5, []string{"l"}, [2]int{1, 2}, map[string]int{"m": 1}, &seven, nil, []byte("hi"), 5, 0, 8}},

		{"embedded", `{"Path":"p","Limit":1}`, struct {
			pathArgs
			Limit int
		}{pathArgs{"p"}, 1}},
		{"embedded pointer", `{"X":1}`, struct{ *Point }{&Point{X: 1}}},
		{"embedded pointer without members", `{}`, struct{ *Point }{}},
		{"embedded with a name", `{"at":{"X":1},"Y":2}`, struct {
			Point `json:"at"`
		}{Point{X: 1}}},
		{"the shallower field counts", `{"Limit":1,"Deep":2}`, struct {
			inner
			Limit int
		}{inner{Deep: 2}, 1}},
		{"of two at one level none counts", `{"Limit":1,"Shared":1,"Deep":2,"Base":3}`, struct {
			limits
			inner
			base
		}{inner: inner{Deep: 2}, base: base{Base: 3}}},
		{"of two at one level the tagged one counts", `{"Limit":1}`, struct {
			limits
			taggedName
		}{taggedName: taggedName{1}}},
		{"a struct that embeds itself", `{"N":1}`, self{N: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			into := reflect.New(typeOf(tt.want))
			if err := typed.Decode(parsed(t, tt.text), into.Interface()); err != nil {
				t.Fatal(err)
			}
			if got := into.Elem().Interface(); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
		})
	}
}

// Point is exported, because reflection cannot set an embedded pointer to an unexported type.
type Point struct{ X, Y int }

func TestDecodeRefuses(t *testing.T) {
	type item struct {
		Name string `json:"name"`
	}
	type args struct {
		Items []item         `json:"items"`
		Sizes map[string]int `json:"sizes"`
		When  time.Time      `json:"when"`
	}
	tests := []struct {
		name, text string
		into       any
		want       string
	}{
		{"path", `{"items":[{"name":"a"},{"name":"b"},{"name":3}]}`, new(args), "items[2].name: want a string, got a number"},
		{"path through a map", `{"sizes":{"a":1,"b c":"x"}}`, new(args), `sizes["b c"]: want an integer, got a string`},
		{"path of a type that decodes itself", `{"when":"noon"}`, new(args), `when: parsing time`},
		{"first bad key each time", `{"c":"x","b":"x","a":"x","d":"x"}`, new(map[string]int), `a: want an integer, got a string`},
		{"long key", `{"` + strings.Repeat("x", 100) + `":"x"}`, new(map[string]int), `["` + strings.Repeat("x", 64) + `"]: want`},
		{"nested lists", `[[1],[2,"x"]]`, new([][]int), "[1][1]: want an integer, got a string"},
		{"bad key", `{"a":1}`, new(map[upper]int), "a: must be upper case"},
		{"whole value", `[]`, new(args), "want an object, got an array"},

		{"fraction", `1.5`, new(int), "want an integer, got 1.5"},
		{"small fraction", `1e-1`, new(int), "want an integer, got 1e-1"},
		{"fraction behind an exponent", `12345e-4`, new(int), "want an integer, got 12345e-4"},
		{"int8 above", `128`, new(int8), "the number 128 does not fit in int8"},
		{"int8 below", `-129`, new(int8), "the number -129 does not fit in int8"},
		{"uint8 above", `256`, new(uint8), "the number 256 does not fit in uint8"},
		{"negative uint", `-1`, new(uint), "the number -1 does not fit in uint"},
		{"int64 above", `9223372036854775808`, new(int64), "does not fit in int64"},
		{"int64 above by its exponent", `1e19`, new(int64), "the number 1e19 does not fit in int64"},
		{"huge exponent", `1e20000000`, new(int64), "does not fit in int64"},
		{"huge negative exponent", `1e-20000000`, new(int64), "want an integer"},
		{"exponent beyond int", `1e99999999999999999999`, new(int64), "want an integer"},
		{"float64 above", `1e400`, new(float64), "the number 1e400 does not fit in float64"},
		{"float32 above", `1e39`, new(float32), "the number 1e39 does not fit in float32"},
		{"string for a number", `"1"`, new(int), "want an integer, got a string"},
		{"string for json.Number", `"1"`, new(json.Number), "want a number, got a string"},
		{"number for a string", `1`, new(string), "want a string, got a number"},
		{"number for text", `1`, new(upper), "want a string, got a number"},
		{"boolean for a float", `true`, new(float64), "want a number, got a boolean"},
		{"object for a boolean", `{}`, new(bool), "want a boolean, got an object"},
		{"null for a string", `null`, new(string), "want a string, got null"},
		{"null for a struct", `null`, new(args), "want an object, got null"},
		{"null for an array", `null`, new([1]int), "want an array, got null"},
		{"short array", `[1]`, new([2]int), "want 2 elements, got 1"},
		{"long array", `[1,2,3]`, new([2]int), "want 2 elements, got 3"},
		{"bad base64", `"?"`, new([]byte), "want base64: illegal base64"},
		{"byte out of range", `[256]`, new([]byte), "[0]: the number 256 does not fit in uint8"},
		{"array for a map", `[]`, new(map[string]int), "want an object, got an array"},
		{"object for a slice", `{}`, new([]int), "want an array, got an object"},
		{"embedded pointer to an unexported type", `{"X":1}`, new(struct{ *point }), "X: the Go field is behind an embedded pointer"},

		{"channel", `1`, new(chan int), "cannot be stored in the Go type chan int"},
		{"interface with methods", `1`, new(fmt.Stringer), "cannot be stored in the Go type fmt.Stringer"},
		{"map with integer keys", `{"1":1}`, new(map[int]int), "cannot be stored in the Go type map[int]int"},
		{"no pointer", `1`, 1, "cannot store into int"},
		{"nil pointer", `1`, (*int)(nil), "cannot store into *int"},
		{"nil", `1`, nil, "cannot store into <nil>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := typed.Decode(parsed(t, tt.text), tt.into)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if _, ok := errors.AsType[*typed.DecodeError](err); !ok {
				t.Errorf("%T is no DecodeError", err)
			}
		})
	}
}

func TestDecodeErrorUnwraps(t *testing.T) {
	err := typed.Decode(map[string]any{"code": "low"}, new(struct {
		Code upper `json:"code"`
	}))
	e, ok := errors.AsType[*typed.DecodeError](err)
	if !ok || e.Path != "code" || !errors.Is(err, errUpper) {
		t.Errorf("got %#v", err)
	}
}

// TestDecodeSharesNothing checks that a tool cannot change the parsed arguments, from which toold computes digests, by changing its decoded
// arguments.
func TestDecodeSharesNothing(t *testing.T) {
	value := parsed(t, `{"any":{"list":[1,[2]]},"list":[{"a":1}]}`)
	var into struct {
		Any  any              `json:"any"`
		List []map[string]any `json:"list"`
	}
	if err := typed.Decode(value, &into); err != nil {
		t.Fatal(err)
	}
	list := into.Any.(map[string]any)["list"].([]any)
	list[0], list[1].([]any)[0] = "changed", "changed"
	into.List[0]["a"] = "changed"
	if want := parsed(t, `{"any":{"list":[1,[2]]},"list":[{"a":1}]}`); !reflect.DeepEqual(value, want) {
		t.Errorf("the parsed value became %v", value)
	}
}

// TestDecodeKeepsDefaults checks that Decode leaves a field unchanged when its member is absent. So a tool can set defaults before it
// decodes.
func TestDecodeKeepsDefaults(t *testing.T) {
	into := point{X: 1, Y: 2}
	if err := typed.Decode(parsed(t, `{"Y":3}`), &into); err != nil || into != (point{1, 3}) {
		t.Errorf("got %v, %v", into, err)
	}
}

// TestDecodeRawMessageIsCanonical checks that a RawMessage contains the canonical form v1. The rows are the test vectors of that form.
func TestDecodeRawMessageIsCanonical(t *testing.T) {
	data, err := os.ReadFile("../../call/testdata/canonical.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct{ Name, Text, Canonical string }
	}
	if err := json.Unmarshal(data, &file); err != nil || len(file.Vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(file.Vectors), err)
	}
	for _, v := range file.Vectors {
		var raw json.RawMessage
		if err := typed.Decode(parsed(t, v.Text), &raw); err != nil || string(raw) != v.Canonical {
			t.Errorf("%s: got %q, %v, want %q", v.Name, raw, err, v.Canonical)
		}
	}
}

func parsed(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// typeOf returns the type of want, or the type any when want is a map or nil.
func typeOf(want any) reflect.Type {
	if _, ok := want.(map[string]any); ok || want == nil {
		return reflect.TypeFor[any]()
	}
	return reflect.TypeOf(want)
}
