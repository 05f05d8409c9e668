package call_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/toold-dev/toold/call"
)

// TestCanonicalVectors checks the published test vectors. Clients in other languages test their digests with the same file. A vector may be
// added but never changed.
func TestCanonicalVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/canonical.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct{ Name, Text, Canonical, SHA256 string }
		Refused []struct {
			Name, Text string
			Offset     int
			Truncated  bool
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) < 20 || len(file.Refused) < 10 {
		t.Fatalf("only %d vectors and %d refused texts", len(file.Vectors), len(file.Refused))
	}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			got := canonical(t, v.Text)
			if got != v.Canonical {
				t.Errorf("canonical form of %s\n got %q\nwant %q", v.Text, got, v.Canonical)
			}
			if sum := sha256.Sum256([]byte(got)); hex.EncodeToString(sum[:]) != v.SHA256 {
				t.Errorf("SHA-256 of %s is %x, want %s", got, sum, v.SHA256)
			}
		})
	}
	for _, r := range file.Refused {
		t.Run("refused "+r.Name, func(t *testing.T) {
			_, err := call.ParseJSON(r.Text, 0)
			got := syntaxError(t, r.Text, err)
			if got.Offset != r.Offset || got.Truncated != r.Truncated {
				t.Errorf("got %+v, want offset %d, truncated %t", *got, r.Offset, r.Truncated)
			}
		})
	}
}

// TestT102CanonicalFormSeparatesValues (T102) checks that values that a tool could distinguish have different canonical forms, and that
// equal values have the same form. Approvals are bound to digests of canonical forms.
func TestT102CanonicalFormSeparatesValues(t *testing.T) {
	tests := []struct {
		name, a, b string
		equal      bool
	}{
		{"integers above 2^53", `{"n":9007199254740992}`, `{"n":9007199254740993}`, false},
		{"1 and 1.0", `{"n":1}`, `{"n":1.0}`, false},
		{"1 and 1e0", `{"n":1}`, `{"n":1e0}`, false},
		{"1e2 and 1E2", `{"n":1e2}`, `{"n":1E2}`, false},
		{"0 and -0", `{"n":0}`, `{"n":-0}`, false},
		{"number and string", `{"n":1}`, `{"n":"1"}`, false},
		{"null and absent", `{"n":null}`, `{}`, false},
		{"order of elements", `{"n":[1,2]}`, `{"n":[2,1]}`, false},
		{"case of names", `{"n":1}`, `{"N":1}`, false},
		{"composed and decomposed", `{"n":"é"}`, `{"n":"e\u0301"}`, false},
		{"reordered members", `{"a":1,"b":{"c":2,"d":3}}`, `{"b":{"d":3,"c":2},"a":1}`, true},
		{"white space", `{"a":[1,2]}`, " {\n\"a\" : [ 1 ,\t2 ] }\r\n", true},
		{"escapes in values", `{"n":"aé/😀\u001f"}`, `{"n":"\u0061\u00e9\/\ud83d\ude00\u001F"}`, true},
		{"escapes in names", `{"a":1}`, `{"\u0061":1}`, true},
		{"short and long escapes", `{"n":"\b\t\n\f\r\"\\"}`, `{"n":"\u0008\u0009\u000a\u000c\u000d\u0022\u005c"}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := canonical(t, tt.a), canonical(t, tt.b)
			if (a == b) != tt.equal {
				t.Errorf("%s and %s, want equal %t", a, b, tt.equal)
			}
		})
	}
}

func TestAppendCanonicalOfOurOwnValues(t *testing.T) {
	type status string
	type round int
	tests := []struct {
		name string
		v    any
		want string
	}{
		{"int", -1, "-1"},
		{"int64", int64(-1 << 63), "-9223372036854775808"},
		{"uint64", uint64(1<<64 - 1), "18446744073709551615"},
		{"named string", status("a\"b"), `"a\"b"`},
		{"named integer", round(3), "3"},
		{"nil map", map[string]any(nil), "{}"},
		{"nil slice", []any(nil), "[]"},
		{"all together", object{"b": array{1, status("x"), nil, true}, "a": number("1.0")}, `{"a":1.0,"b":[1,"x",null,true]}`},
		{"bytes that are not UTF-8 stay", "a\xff", "\"a\xff\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := call.AppendCanonical([]byte("> "), tt.v); string(got) != "> "+tt.want {
				t.Errorf("got %q, want %q", got, "> "+tt.want)
			}
		})
	}
}

func TestAppendCanonicalPanicsOnForeignValues(t *testing.T) {
	for _, v := range []any{1.5, float32(1), []string{"a"}, map[string]string{}, json.RawMessage("1"), new(int)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T was accepted", v)
				}
			}()
			call.AppendCanonical(nil, v)
		}()
	}
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	v, err := call.ParseJSON(text, 0)
	if err != nil {
		t.Fatalf("ParseJSON(%q): %v", text, err)
	}
	return string(call.AppendCanonical(nil, v))
}
