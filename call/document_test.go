package call_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/tool"
)

// mergeExamples is the table of RFC 7396, appendix A.
var mergeExamples = [][3]string{
	{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
	{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
	{`{"a":"b"}`, `{"a":null}`, `{}`},
	{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
	{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
	{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
	{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
	{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
	{`["a","b"]`, `["c","d"]`, `["c","d"]`},
	{`{"a":"b"}`, `["c"]`, `["c"]`},
	{`{"a":"foo"}`, `null`, `null`},
	{`{"a":"foo"}`, `"bar"`, `"bar"`},
	{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
	{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
	{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	{``, `{"a":{"bb":null}}`, `{"a":{}}`}, // an example without a document
}

func TestMerge(t *testing.T) {
	for _, e := range mergeExamples {
		got, err := call.Apply(e[0], &tool.Command{Op: tool.OpMerge, Key: "k", Value: e[1]})
		if err != nil || got != e[2] {
			t.Errorf("merge %s into %s = %s, %v, want %s", e[1], e[0], got, err, e[2])
		}
	}
}

// reference is MergePatch as written in the RFC, on values of encoding/json.
func reference(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = reference(object[name], value)
		}
	}
	return object
}

func read(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func FuzzMerge(f *testing.F) {
	for _, e := range mergeExamples {
		f.Add(e[0], e[1])
	}
	f.Add(`{"a":{"b":{"c":1e400}}}`, `{"a":{"b":null,"\u0000":[{"x":null}]}}`)
	f.Fuzz(func(t *testing.T, document, patch string) {
		set, merge := tool.Command{Op: tool.OpSet, Key: "k", Value: document}, tool.Command{Op: tool.OpMerge, Key: "k", Value: patch}
		if call.CheckCommand(&set) != nil || call.CheckCommand(&merge) != nil {
			return
		}
		got, err := call.Apply(document, &merge)
		if err != nil {
			t.Fatal(err)
		}
		want := string(call.AppendCanonical(nil, reference(read(t, document), read(t, patch))))
		if got != want {
			t.Errorf("merge %s into %s = %s, want %s", patch, document, got, want)
		}
		if again, err := call.Apply(got, &merge); err != nil || again != got {
			t.Errorf("a second merge of %s makes %s, %v of %s", patch, again, err, got)
		}
	})
}

func TestAdd(t *testing.T) {
	nines := strings.Repeat("9", 64)
	for _, tt := range []struct {
		have, plus, want string
		conflict         call.Conflict
	}{
		{"", "5", "5", ""},
		{"9007199254740993", "1", "9007199254740994", ""}, // A float64 cannot represent this number.
		{"18446744073709551615", "1", "18446744073709551616", ""},
		{"0.1", "0.2", "0.3", ""},
		{" 1.50\n", "0.50", "2", ""}, // Equal values have the same form.
		{"1", "-1", "0", ""},
		{"-0", "-0.0", "0", ""},
		{"1e3", "1", "1001", ""},
		{"1E-2", "0", "0.01", ""},
		{"1e+2", "-1e2", "0", ""},
		{"1e400", "1e400", "2e400", ""},
		{"1e-400", "0", "1e-400", ""},
		{"-12.5", "2.25", "-10.25", ""},
		{"1" + strings.Repeat("0", 62), "1", "1" + strings.Repeat("0", 61) + "1", ""},
		{nines, "1", "1e64", ""},
		{nines, "2", "", call.ConflictRange}, // The sum has one digit too many.
		{"1e400", "1", "", call.ConflictRange},
		{"5e400", "5e400", "", call.ConflictRange},
		{"1e40", "1e-40", "", call.ConflictRange},
		{`"1"`, "1", "", call.ConflictType},
		{"[1]", "1", "", call.ConflictType},
		{"null", "1", "", call.ConflictType},
	} {
		got, err := call.Apply(tt.have, &tool.Command{Op: tool.OpAdd, Key: "k", Value: tt.plus})
		conflict, _ := errors.AsType[*call.ConflictError](err)
		if got != tt.want || (conflict == nil) != (tt.conflict == "") || conflict != nil && conflict.Reason != tt.conflict {
			t.Errorf("%s + %s = %s, %v, want %s %s", tt.have, tt.plus, got, err, tt.want, tt.conflict)
		}
	}
}

func FuzzAdd(f *testing.F) {
	f.Add("1e400", "-1e-400")
	f.Add("0.10", "9007199254740993")
	f.Add("-0", "1E+2")
	f.Fuzz(func(t *testing.T, have, plus string) {
		c := tool.Command{Op: tool.OpAdd, Key: "k", Value: plus}
		if call.CheckCommand(&c) != nil || call.CheckCommand(&tool.Command{Op: tool.OpAdd, Key: "k", Value: have}) != nil {
			return
		}
		got, err := call.Apply(have, &c)
		if err != nil {
			return // An error is allowed here, but a wrong sum is not.
		}
		if err := call.CheckCommand(&tool.Command{Op: tool.OpAdd, Key: "k", Value: got}); err != nil {
			t.Fatalf("%s + %s = %s, which is no number: %v", have, plus, got, err)
		}
		rat := func(s string) *big.Rat {
			r, ok := new(big.Rat).SetString(strings.TrimSpace(s))
			if !ok {
				t.Fatal(s)
			}
			return r
		}
		if sum := new(big.Rat).Add(rat(have), rat(plus)); sum.Cmp(rat(got)) != 0 {
			t.Errorf("%s + %s = %s, want %s", have, plus, got, sum)
		}
		back, err := call.Apply(plus, &tool.Command{Op: tool.OpAdd, Key: "k", Value: have})
		if err != nil || back != got {
			t.Errorf("%s + %s = %s, the other way %s, %v", have, plus, got, back, err)
		}
	})
}

func TestAppend(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "1", "[1]"},
		{"[]", "1", "[1]"},
		{" [ \n] ", "1", " [1]"},
		{`["[",1.0 ] `, ` {"a": null}`, `["[",1.0, {"a": null}]`},
		{"[[]]", "[]", "[[],[]]"},
	} {
		c := tool.Command{Op: tool.OpAppend, Key: "k", Value: tt[1]}
		got, err := call.Apply(tt[0], &c)
		if err != nil || got != tt[2] || !json.Valid([]byte(got)) {
			t.Errorf("append %s to %s = %s, %v, want %s", tt[1], tt[0], got, err, tt[2])
		}
	}
	for _, document := range []string{"{}", "1", `"[]"`, "null"} {
		_, err := call.Apply(document, &tool.Command{Op: tool.OpAppend, Key: "k", Value: "1"})
		if conflict, ok := errors.AsType[*call.ConflictError](err); !ok || conflict.Reason != call.ConflictType {
			t.Errorf("append to %s: %v", document, err)
		}
	}
}

// TestAddAndAppendCommute checks that the order of add and append commands does not change a sum or the set of items in a list.
func TestAddAndAppendCommute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.StringMatching(`-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,10})?(e-?[0-9])?`), 1, 8).Draw(t, "numbers")
		order := rapid.Permutation(numbers).Draw(t, "order")
		run := func(op tool.CommandOp, values []string) (document string) {
			for _, v := range values {
				c := tool.Command{Op: op, Key: "k", Value: v}
				err := call.CheckCommand(&c)
				if err == nil {
					document, err = call.Apply(document, &c)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			return document
		}
		if a, b := run(tool.OpAdd, numbers), run(tool.OpAdd, order); a != b {
			t.Fatalf("%v sum up to %s or to %s", numbers, a, b)
		}
		count := func(document string) map[json.Number]int {
			var list []json.Number
			if err := json.Unmarshal([]byte(document), &list); err != nil {
				t.Fatal(err)
			}
			found := map[json.Number]int{}
			for _, n := range list {
				found[n]++
			}
			return found
		}
		a, b := count(run(tool.OpAppend, numbers)), count(run(tool.OpAppend, order))
		for n := range a {
			if a[n] != b[n] || len(a) != len(b) {
				t.Fatalf("%v makes %v or %v", numbers, a, b)
			}
		}
	})
}

func TestCheckCommand(t *testing.T) {
	negative := int64(-1)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, tt := range map[string]struct {
		command tool.Command
		ok      bool
	}{
		"set":                {tool.Command{Op: tool.OpSet, Key: "k", Value: "null"}, true},
		"delete":             {tool.Command{Op: tool.OpDelete, Key: "k"}, true},
		"deep":               {tool.Command{Op: tool.OpSet, Key: "k", Value: deep(call.MaxDepth)}, true},
		"too deep":           {tool.Command{Op: tool.OpSet, Key: "k", Value: deep(call.MaxDepth + 1)}, false},
		"too deep in a list": {tool.Command{Op: tool.OpAppend, Key: "k", Value: deep(call.MaxDepth)}, false},
		"member twice":       {tool.Command{Op: tool.OpSet, Key: "k", Value: `{"a":1,"a":2}`}, false},
		"two values":         {tool.Command{Op: tool.OpAppend, Key: "k", Value: `1,2`}, false},
		"huge number":        {tool.Command{Op: tool.OpAdd, Key: "k", Value: "1e401"}, false},
		"long number":        {tool.Command{Op: tool.OpAdd, Key: "k", Value: strings.Repeat("1", 65)}, false},
		"add of text":        {tool.Command{Op: tool.OpAdd, Key: "k", Value: `"1"`}, false},
		"no such command":    {tool.Command{Op: "increment", Key: "k", Value: "1"}, false},
		"no key":             {tool.Command{Op: tool.OpSet, Value: "1"}, false},
		"long key":           {tool.Command{Op: tool.OpSet, Key: strings.Repeat("k", call.MaxDocumentKey+1), Value: "1"}, false},
		"odd revision":       {tool.Command{Op: tool.OpSet, Key: "k", Value: "1", Expected: &negative}, false},
	} {
		if err := call.CheckCommand(&tt.command); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
