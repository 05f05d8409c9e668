package call_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/toold-dev/toold/call"
)

type (
	object = map[string]any
	array  = []any
	number = json.Number
)

func TestParseJSONAccepts(t *testing.T) {
	deepest := strings.Repeat("[", call.MaxDepth) + strings.Repeat("]", call.MaxDepth)
	var deepestValue any = array{}
	for range call.MaxDepth - 1 {
		deepestValue = array{deepestValue}
	}
	tests := []struct {
		name, text string
		want       any
	}{
		{"null", `null`, nil},
		{"true", `true`, true},
		{"false", `false`, false},
		{"string", `"a"`, "a"},
		{"empty string", `""`, ""},
		{"number", `12`, number("12")},
		{"white space around all", " \t\r\n[ 1 , { \"a\" : 2 } ] \n", array{number("1"), object{"a": number("2")}}},
		{"empty array", `[ ]`, array{}},
		{"empty object", `{ }`, object{}},
		{"empty name", `{"":1}`, object{"": number("1")}},
		{"names that differ in case", `{"a":1,"A":2}`, object{"a": number("1"), "A": number("2")}},
		{"the same name in two objects", `{"a":{"a":1}}`, object{"a": object{"a": number("1")}}},
		{"siblings after nested ones", `[[1,[2]],3,{"a":[4],"b":5}]`, array{
			array{number("1"), array{number("2")}}, number("3"), object{"a": array{number("4")}, "b": number("5")},
		}},
		{"all short escapes", `"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{"unicode escapes in both cases", `"\u00e9\u00E9\u0000"`, "éé\x00"},
		{"surrogate pair", `"x\ud83d\uDE00y"`, "x😀y"},
		{"escapes first and last", `"\na\n"`, "\na\n"},
		{"raw UTF-8 of every length", `"aé€😀"`, "aé€😀"},
		{"U+FFFD itself", "\"\ufffd\"", "\ufffd"},
		{"a byte order mark inside a string", "\"\ufeff\"", "\ufeff"},
		{"DEL, U+2028", "\"\x7f\u2028\"", "\x7f\u2028"},
		{"number tokens verbatim", `[0,-0,1.0,1e0,1E+2,-1.5e-3,9007199254740993]`, array{
			number("0"), number("-0"), number("1.0"), number("1e0"), number("1E+2"), number("-1.5e-3"), number("9007199254740993"),
		}},
		{"longest number", strings.Repeat("9", 64), number(strings.Repeat("9", 64))},
		{"largest exponents", `[1e400,1e-400,1e0400]`, array{number("1e400"), number("1e-400"), number("1e0400")}},
		{"deepest", deepest, deepestValue},
		{"deep again after closing", "[" + deepest[1:len(deepest)-1] + "," + deepest[1:len(deepest)-1] + "]",
			array{deepestValue.(array)[0], deepestValue.(array)[0]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := call.ParseJSON(tt.text, 0)
			if err != nil {
				t.Fatalf("ParseJSON(%q): %v", tt.text, err)
			}
			if !reflect.DeepEqual(got, tt.want) { // cmp.Diff would take 2^depth steps.
				t.Errorf("ParseJSON(%q) = %#v, want %#v", tt.text, got, tt.want)
			}
		})
	}
}

func TestParseJSONRefuses(t *testing.T) {
	tests := []struct {
		name, text string
		offset     int
		reason     string // part of the reason
	}{
		{"empty", "", 0, "the text is empty"},
		{"white space only", " \n", 2, "the text is empty"},
		{"byte order mark", "\ufeff{}", 0, "byte order mark"},
		{"byte order mark later", " \ufeff{}", 1, "expected a value, found U+FEFF"},
		{"second value", `{} {}`, 3, "expected the end of the text, found '{'"},
		{"second value without space", `truefalse`, 4, "expected the end of the text, found 'f'"},
		{"NUL behind the value", "{}\x00", 2, "expected the end of the text, found U+0000"},
		{"form feed as space", "\f1", 0, "expected a value, found U+000C"},
		{"no-break space", "\u00a01", 0, "expected a value, found U+00A0"},
		{"comment", `{"a":1} // x`, 8, "expected the end of the text, found '/'"},
		{"trailing comma in object", `{"a":1,}`, 7, "expected a member name in double quotes, found '}'"},
		{"trailing comma in array", `[1,]`, 3, "expected a value, found ']'"},
		{"leading comma", `[,1]`, 1, "expected a value, found ','"},
		{"no comma in array", `[1 2]`, 3, "expected ',' or ']' after an array element, found '2'"},
		{"no comma in object", `{"a":1 "b":2}`, 7, `expected ',' or '}' after an object member, found '"'`},
		{"no colon", `{"a" 1}`, 5, "expected ':' after a member name, found '1'"},
		{"no member value", `{"a":}`, 5, "expected a value, found '}'"},
		{"bare name", `{a:1}`, 1, "expected a member name in double quotes, found 'a'"},
		{"single quotes", `{'a':1}`, 1, `in double quotes, found "'"`},
		{"wrong bracket", `[1}`, 2, "expected ',' or ']' after an array element, found '}'"},
		{"closing bracket alone", `]`, 0, "expected a value, found ']'"},
		{"capital literal", `[True]`, 1, "expected a value, found 'T'"},
		{"misspelt literal", `[trux]`, 4, "expected true, found 'x'"},
		{"longer literal", `[nulls]`, 5, "expected ',' or ']'"},
		{"NaN", `NaN`, 0, "expected a value, found 'N'"},
		{"infinity", `-Infinity`, 1, "expected a digit, found 'I'"},
		{"not UTF-8 outside strings", "[\xff]", 1, "byte 0xff, which is not UTF-8"},

		{"duplicate name", `{"a":1,"a":1}`, 7, `the member "a" twice`},
		{"duplicate name after unescaping", `{"a":1,"\u0061":2}`, 7, `the member "a" twice`},
		{"duplicate name, inner object", `[{"x":{"b":1,"c":2,"b":3}}]`, 19, `the member "b" twice`},
		{"duplicate empty name", `{"":1,"":2}`, 6, `the member "" twice`},
		{"duplicate long name", `{"` + strings.Repeat("ü", 99) + `":1,"` + strings.Repeat("ü", 99) + `":1}`, 204, "ü\"… twice"},

		{"leading zero", `01`, 0, "leading 0"},
		{"negative leading zero", `[-012]`, 2, "leading 0"},
		{"plus", `+1`, 0, "expected a value, found '+'"},
		{"leading point", `.5`, 0, "expected a value, found '.'"},
		{"nothing behind the point", `[1.]`, 3, "expected a digit, found ']'"},
		{"nothing behind the exponent", `[1e]`, 3, "expected a digit, found ']'"},
		{"nothing behind the sign", `[1e+]`, 4, "expected a digit, found ']'"},
		{"minus alone", `[-]`, 2, "expected a digit, found ']'"},
		{"hexadecimal", `0x10`, 1, "expected the end of the text, found 'x'"},
		{"too long a number", `[` + strings.Repeat("9", 65) + `]`, 1, "65 characters, the limit is 64"},
		{"too long a fraction", `0.` + strings.Repeat("0", 63), 0, "65 characters, the limit is 64"},
		{"too large an exponent", `[1e401]`, 2, "exponent of a number is beyond 400"},
		{"too small an exponent", `[1e-401]`, 2, "exponent of a number is beyond 400"},
		{"exponent that kills a schema check", `1e20000000`, 1, "exponent of a number is beyond 400"},
		{"exponent beyond any integer", `1e99999999999999999999999`, 1, "exponent of a number is beyond 400"},

		{"newline in a string", "\"a\nb\"", 2, "control character U+000A"},
		{"NUL in a string", "\"\x00\"", 1, "control character U+0000"},
		{"U+001F in a name", "{\"\x1f\":1}", 2, "control character U+001F"},
		{"unknown escape", `"\x41"`, 2, `after a backslash, found 'x'`},
		{"capital U", `"\U0041"`, 2, `after a backslash, found 'U'`},
		{"bad hexadecimal digit", `"\u00g0"`, 5, `four hexadecimal digits after \u, found 'g'`},
		{"too few hexadecimal digits", `"\u00"`, 5, `four hexadecimal digits after \u, found '"'`},
		{"high surrogate alone", `"x\ud800"`, 2, "half of a surrogate pair"},
		{"high surrogate and another escape", `"\ud800\n"`, 1, "half of a surrogate pair"},
		{"two high surrogates", `"\ud800\ud800"`, 1, "half of a surrogate pair"},
		{"high surrogate and U+FFFD", `"\ud800\ufffd"`, 1, "half of a surrogate pair"},
		{"low surrogate alone", `"\udc00"`, 1, "half of a surrogate pair"},
		{"surrogates the wrong way round", `"\ude00\ud83d"`, 1, "half of a surrogate pair"},
		{"low surrogate at the end of the text", `"\udc00`, 1, "half of a surrogate pair"},
		{"lone surrogate in a name", `{"\ud800":1}`, 2, "half of a surrogate pair"},
		{"raw surrogate", "\"\xed\xa0\x80\"", 1, "the byte 0xed, which is not UTF-8"},
		{"overlong encoding", "\"\xc0\x80\"", 1, "the byte 0xc0, which is not UTF-8"},
		{"beyond U+10FFFF", "\"a\xf4\x90\x80\x80\"", 2, "the byte 0xf4, which is not UTF-8"},
		{"continuation byte alone", "\"\x80\"", 1, "the byte 0x80, which is not UTF-8"},
		{"not UTF-8 after an escape", "\"\\n\xff\"", 3, "the byte 0xff, which is not UTF-8"},

		{"too deep arrays", strings.Repeat("[", 65) + strings.Repeat("]", 65), 64, "nested deeper than 64"},
		{"too deep objects", strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), 64 * 5, "nested deeper than 64"},
		{"far too deep", strings.Repeat("[", 1e6), 64, "nested deeper than 64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := call.ParseJSON(tt.text, 0)
			got := syntaxError(t, tt.text, err)
			if got.Offset != tt.offset || !strings.Contains(got.Reason, tt.reason) || got.Truncated {
				t.Errorf("got %+v, want offset %d and %q", *got, tt.offset, tt.reason)
			}
			if strings.Contains(got.Error(), "cut off") {
				t.Errorf("%q says that the text looks cut off", got)
			}
		})
	}
}

func TestParseJSONReportsTruncation(t *testing.T) {
	tests := []struct{ name, text, reason string }{
		{"object", `{`, "expected a member name in double quotes"},
		{"name", `{"a`, `expected '"' at the end of a string`},
		{"behind a name", `{"a"`, "expected ':' after a member name"},
		{"behind a colon", `{"a":`, "expected a value"},
		{"behind a member", `{"a":1`, "expected ',' or '}' after an object member"},
		{"behind a comma", `{"a":1,`, "expected a member name in double quotes"},
		{"array", `[`, "expected a value"},
		{"behind an element", `[1`, "expected ',' or ']' after an array element"},
		{"white space at the end", "[1, \n", "expected a value"},
		{"literal", `[tru`, "expected true"},
		{"minus", `-`, "expected a digit"},
		{"point", `1.`, "expected a digit"},
		{"exponent", `1e`, "expected a digit"},
		{"exponent sign", `1e-`, "expected a digit"},
		{"string", `"abc`, `expected '"' at the end of a string`},
		{"escape", `"\`, "expected an escape"},
		{"unicode escape", `"\u00`, `expected four hexadecimal digits after \u`},
		{"first half of a pair", `"\ud83d`, "expected the second half of a surrogate pair"},
		{"first half and a backslash", `"\ud83d\`, "expected the second half of a surrogate pair"},
		{"second half", `"\ud83d\ud`, `expected four hexadecimal digits after \u`},
		{"UTF-8 character", "\"\xf0\x9f\x98", "expected the rest of a UTF-8 character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := call.ParseJSON(tt.text, 0)
			got := syntaxError(t, tt.text, err)
			want := call.SyntaxError{Offset: len(tt.text), Reason: tt.reason + ", but the text ended", Truncated: true}
			if *got != want {
				t.Errorf("got %+v, want %+v", *got, want)
			}
			if !strings.Contains(got.Error(), "the text looks cut off") {
				t.Errorf("%q does not say that the text looks cut off", got)
			}
		})
	}
}

func TestSyntaxErrorMessage(t *testing.T) {
	_, err := call.ParseJSON(`{"path":"src","line":12 "x"}`, 0)
	want := `not valid JSON at byte 24: expected ',' or '}' after an object member, found '"'`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestParseJSONLimitsSize(t *testing.T) {
	const text = `{"a":1}`
	for _, limit := range []int{len(text), len(text) + 1, 0, -1} {
		if _, err := call.ParseJSON(text, limit); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	_, err := call.ParseJSON(text, len(text)-1)
	got := syntaxError(t, text, err)
	if want := (call.SyntaxError{Offset: 6, Reason: "the text has 7 bytes, the limit is 6"}); *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}

// A string without escapes must not be copied, because file contents of a megabyte are parsed here.
func TestParseJSONSharesPlainStrings(t *testing.T) {
	text := `{"content":"` + strings.Repeat("x", 1<<16) + `"}`
	v, err := call.ParseJSON(text, 0)
	if err != nil {
		t.Fatal(err)
	}
	content := v.(object)["content"].(string)
	if unsafe.StringData(content) != unsafe.StringData(text[len(`{"content":"`):]) {
		t.Error("the string was copied")
	}
}

func syntaxError(t *testing.T, text string, err error) *call.SyntaxError {
	t.Helper()
	e, ok := errors.AsType[*call.SyntaxError](err)
	if !ok {
		t.Fatalf("ParseJSON(%.80q) gave %v, want a SyntaxError", text, err)
	}
	return e
}
