package call_test

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toold-dev/toold/call"
)

// FuzzParseJSON compares the parser with encoding/json. For an accepted text, both must return the same value. A refused text must also be
// refused by encoding/json, or break one of the additional rules of the parser.
func FuzzParseJSON(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		got, err := call.ParseJSON(text, 0)
		if err != nil {
			e, ok := errors.AsType[*call.SyntaxError](err)
			if !ok || e.Offset < 0 || e.Offset > len(text) || e.Reason == "" || (e.Truncated && e.Offset != len(text)) {
				t.Fatalf("ParseJSON(%q): bad error %#v", text, err)
			}
			if json.Valid([]byte(text)) && !beyondJSON(text) {
				t.Fatalf("ParseJSON(%q): %v, but it breaks no rule", text, err)
			}
			return
		}
		if !json.Valid([]byte(text)) || beyondJSON(text) {
			t.Fatalf("ParseJSON(%q) accepted it", text)
		}
		if want := decodeJSON(t, text); !reflect.DeepEqual(got, want) {
			t.Fatalf("ParseJSON(%q) = %#v, want %#v", text, got, want)
		}
	})
}

// FuzzAppendCanonical checks that a canonical form parses to the same value, also with encoding/json, and is its own canonical form.
func FuzzAppendCanonical(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		v, err := call.ParseJSON(text, 0)
		if err != nil {
			return
		}
		form := string(call.AppendCanonical(nil, v))
		if written := call.Parse(text).Canonical; written != form && strings.Trim(text, " \t\r\n") != "null" {
			t.Fatalf("the parser wrote %q for %q, want %q", written, text, form)
		}
		again, err := call.ParseJSON(form, 0)
		if err != nil {
			t.Fatalf("canonical form %q of %q: %v", form, text, err)
		}
		if !reflect.DeepEqual(again, v) || !reflect.DeepEqual(decodeJSON(t, form), v) {
			t.Fatalf("canonical form %q of %q is another value", form, text)
		}
		if twice := string(call.AppendCanonical(nil, again)); twice != form {
			t.Fatalf("canonical form %q has the canonical form %q", form, twice)
		}
	})
}

func decodeJSON(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", text, err)
	}
	return v
}

// beyondJSON reports whether a text that encoding/json accepts breaks one of the additional rules. It does not use the parser.
func beyondJSON(text string) bool {
	return !utf8.ValidString(text) || hasLoneSurrogate(text) || breaksLimits(text)
}

func hasLoneSurrogate(text string) bool {
	text = strings.ReplaceAll(text, `\\`, "")
	text = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`).ReplaceAllString(text, "")
	return regexp.MustCompile(`(?i)\\ud[89a-f]`).MatchString(text)
}

// breaksLimits scans the tokens for duplicate names, depth and numbers.
func breaksLimits(text string) bool {
	type level struct {
		names map[string]bool // nil for an array
		name  bool            // The next token is a name.
	}
	var open []level
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return !errors.Is(err, io.EOF) // encoding/json has its own, larger depth limit.
		}
		if s, ok := token.(string); ok && len(open) > 0 && open[len(open)-1].name {
			top := &open[len(open)-1]
			if top.names[s] {
				return true
			}
			top.names[s], top.name = true, false
			continue
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '}' || token == ']' {
				open = open[:len(open)-1]
				break
			}
			if len(open) == call.MaxDepth {
				return true
			}
			if token == '{' {
				open = append(open, level{map[string]bool{}, true})
			} else {
				open = append(open, level{})
			}
			continue
		case json.Number:
			if numberBeyondLimits(string(token)) {
				return true
			}
		}
		if len(open) > 0 {
			open[len(open)-1].name = open[len(open)-1].names != nil
		}
	}
}

func numberBeyondLimits(token string) bool {
	_, exponent, found := strings.Cut(strings.ToLower(token), "e")
	if !found {
		return len(token) > 64
	}
	n, err := strconv.Atoi(exponent)
	return len(token) > 64 || err != nil || n > 400 || n < -400
}
