package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestArgumentsOf(t *testing.T) {
	const schema = `{"type":"object","$defs":{"mode":{"enum":["fast","slow"]},"n":{"type":"integer"}},"properties":{
		"s":{"type":"string"},"n":{"type":"number"},"i":{"type":"integer"},"b":{"type":"boolean"},"nullable":{"type":["integer","null"]},
		"either":{"type":["string","integer"]},"words":{"type":"array","items":{"type":"string"}},"numbers":{"type":"array","items":{"$ref":"#/$defs/n"}},
		"o":{"type":"object"},"mode":{"$ref":"#/$defs/mode"},"alternatives":{"anyOf":[{"type":"integer"},{"type":"null"}]},
		"constant":{"const":5},"open":true,"recursive":{"$ref":"#/$defs/recursive"}}}`
	tests := []struct{ name, words, want, problem string }{
		{"nothing", "", `{}`, ""},
		{"text that looks like other things", "s=1|open=true", `{"s":"1","open":"true"}`, ""},
		{"empty text", "s=", `{"s":""}`, ""},
		{"text with = and quotes", `s=a="b"\`, `{"s":"a=\"b\"\\"}`, ""},
		{"text is not made safe for HTML", "s=<a&b>", `{"s":"<a&b>"}`, ""},
		{"numbers as they are typed", "n=1.50|i=12345678901234567890", `{"n":1.50,"i":12345678901234567890}`, ""},
		{"negative", "n=-1e3", `{"n":-1e3}`, ""},
		{"not as JSON writes it", "n=007", "", `n: "007" is not a valid number`},
		{"hexadecimal", "n=0x10", "", "is not a valid number"},
		{"boolean", "b=true", `{"b":true}`, ""},
		{"boolean of another language", "b=yes", "", `b: "yes" is not a valid boolean`},
		{"null", "nullable=null", `{"nullable":null}`, ""},
		{"text wins", "either=5", `{"either":"5"}`, ""},
		{"raw", `either:=5|o:={"a":[1, 2]}|s:=null`, `{"either":5,"o":{"a":[1, 2]},"s":null}`, ""},
		{"raw that is none", "o:={", "", `o: "{" is not JSON`},
		{"object", "o=x", "", "o wants JSON; write o:="},
		{"list", "words=a|words=b c", `{"words":["a","b c"]}`, ""},
		{"list of one", "words=a", `{"words":["a"]}`, ""},
		{"list of numbers", "numbers=1|numbers=2", `{"numbers":[1,2]}`, ""},
		{"list of numbers with a word", "numbers=x", "", "is not a valid integer"},
		{"list as JSON", `words:=["a"]`, `{"words":["a"]}`, ""},
		{"list in two ways", `words:=["a"]|words=b`, "", `"words" is set twice`},
		{"twice", "s=a|s=b", "", `"s" is set twice`},
		{"enum without type", "mode=fast", `{"mode":"fast"}`, ""},
		{"anyOf", "alternatives=3", `{"alternatives":3}`, ""},
		{"const", "constant=5", `{"constant":5}`, ""},
		{"unknown key is the daemon's to refuse", "zzz=1", `{"zzz":"1"}`, ""},
		{"order of the words", "s=1|b=true", `{"s":"1","b":true}`, ""},
		{"no pair", "hello", "", "neither key=value nor key:=json"},
		{"no key", "=x", "", "neither key=value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var words []string
			if tt.words != "" {
				words = strings.Split(tt.words, "|")
			}
			got, err := ArgumentsOf(words, schema)
			if tt.problem != "" {
				if _, usage := errors.AsType[usageError](err); !usage || !strings.Contains(err.Error(), tt.problem) {
					t.Fatalf("error %v, want a usage error with %q", err, tt.problem)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestAnswerOf(t *testing.T) {
	tests := []struct{ name, words, schema, want, problem string }{
		{"text", "5|apples", `{"type":"string"}`, `"5 apples"`, ""},
		{"text that looks like a pair", "a=b", `{"type":"string"}`, `"a=b"`, ""},
		{"one of several", "red", `{"enum":["red","green"]}`, `"red"`, ""},
		{"number", "7", `{"type":"integer"}`, `7`, ""},
		{"no number", "seven", `{"type":"integer"}`, "", `"seven" is not a valid integer`},
		{"yes", "true", `{"type":"boolean"}`, `true`, ""},
		{"list", "red|green apple", `{"type":"array","items":{"type":"string"}}`, `["red","green apple"]`, ""},
		{"object", "name=Ada|age=36", `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}}}`, `{"name":"Ada","age":36}`, ""},
		{"object, but no pairs", "Ada", `{"type":"object"}`, "", "neither key=value"},
		{"no schema, JSON", `{"a":1}`, "", `{"a":1}`, ""},
		{"no schema, pairs", "a=1", "", `{"a":"1"}`, ""},
		{"no schema, text", "just do it", "", `"just do it"`, ""},
		{"no JSON for a schema", "x", "{", "", "give the answer with --json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := answerOf(strings.Split(tt.words, "|"), tt.schema)
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Fatalf("error %v, want %q", err, tt.problem)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("a=b", `{"properties":{"a":{"type":"integer"}}}`)
	f.Add("a:=1", `{"$defs":{"x":{"items":{"$ref":"#/$defs/x"}}},"properties":{"a":{"$ref":"#/$defs/x"}}}`)
	f.Add("a=1", `{"properties":{"a":null}}`)
	f.Fuzz(func(t *testing.T, word, schema string) {
		if got, err := ArgumentsOf([]string{word}, schema); err == nil && !json.Valid([]byte(got)) {
			t.Errorf("%q with %q gives %q", word, schema, got)
		}
		_, _ = answerOf([]string{word}, schema)
	})
}
