package call_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
)

// anyString draws strings with many of the characters that JSON and UTF-8 treat specially, so that they occur next to each other.
func anyString() *rapid.Generator[string] {
	special := []rune("\x00\b\t\n\f\r\x1f \"\\/<&u\x7f\u0080é\u2028\ud7ff\ue000\ufeff\ufffd\U00010000😀\U0010ffff")
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(special), rapid.Rune()), 0, 12), func(runes []rune) string {
		return string(runes)
	})
}

func anyNumber() *rapid.Generator[number] {
	token := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,10})?([eE][+-]?(400|[0-3]?[0-9]?[0-9]))?`)
	return rapid.Map(token, func(s string) number { return number(s) })
}

func anyValue(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil),
		rapid.Bool().AsAny(),
		anyString().AsAny(),
		anyNumber().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth - 1) })
	return rapid.OneOf(append(scalars,
		rapid.SliceOfN(inner, 0, 5).AsAny(),
		rapid.MapOfN(anyString(), inner, 0, 20).AsAny(),
	)...)
}

func TestCanonicalRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(4).Draw(t, "value")
		text := string(call.AppendCanonical(nil, v))
		parsed, err := call.ParseJSON(text, 0)
		if err != nil {
			t.Fatalf("ParseJSON(%q): %v", text, err)
		}
		if diff := cmp.Diff(v, parsed); diff != "" {
			t.Fatalf("%q parses to another value (-want +got):\n%s", text, diff)
		}
		if again := string(call.AppendCanonical(nil, parsed)); again != text {
			t.Fatalf("not a fixed point: %q became %q", text, again)
		}
	})
}

// A value parses to itself and has one canonical form, for every order of members, white space and escapes.
func TestEveryWritingHasOneCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(4).Draw(t, "value")
		var text strings.Builder
		writeSomehow(t, &text, v)
		parsed, err := call.ParseJSON(text.String(), 0)
		if err != nil {
			t.Fatalf("ParseJSON(%q): %v", text.String(), err)
		}
		if diff := cmp.Diff(v, parsed); diff != "" {
			t.Fatalf("%q parses to another value (-want +got):\n%s", text.String(), diff)
		}
		if got, want := string(call.AppendCanonical(nil, parsed)), string(call.AppendCanonical(nil, v)); got != want {
			t.Fatalf("canonical form %q, want %q", got, want)
		}
		if got, want := call.Parse(text.String()).Canonical, string(call.AppendCanonical(nil, v)); v != nil && got != want {
			t.Fatalf("the parser wrote the canonical form %q, want %q", got, want)
		}
	})
}

// A text that was truncated anywhere is reported as truncated.
func TestEveryPrefixLooksCutOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		writeSomehow(t, &text, array{anyValue(3).Draw(t, "value")})
		whole := strings.TrimSpace(text.String())
		prefix := whole[:rapid.IntRange(1, len(whole)-1).Draw(t, "length")]
		_, err := call.ParseJSON(prefix, 0)
		e, ok := err.(*call.SyntaxError)
		if !ok || !e.Truncated || e.Offset != len(prefix) {
			t.Fatalf("ParseJSON(%q) gave %v, want it cut off at %d", prefix, err, len(prefix))
		}
	})
}

func writeSomehow(t *rapid.T, w *strings.Builder, v any) {
	space := func() { w.WriteString(rapid.SampledFrom([]string{"", "", " ", "\n", "\t\r"}).Draw(t, "space")) }
	space()
	switch v := v.(type) {
	case string:
		writeStringSomehow(t, w, v)
	case []any:
		w.WriteByte('[')
		space()
		for i, element := range v {
			if i > 0 {
				w.WriteByte(',')
			}
			writeSomehow(t, w, element)
		}
		w.WriteByte(']')
	case map[string]any:
		w.WriteByte('{')
		space()
		names := slices.Sorted(maps.Keys(v)) // rapid needs a fixed order as input.
		if len(names) > 0 {
			names = rapid.Permutation(names).Draw(t, "order")
		}
		for i, name := range names {
			if i > 0 {
				w.WriteByte(',')
			}
			space()
			writeStringSomehow(t, w, name)
			space()
			w.WriteByte(':')
			writeSomehow(t, w, v[name])
		}
		w.WriteByte('}')
	default:
		w.Write(call.AppendCanonical(nil, v))
	}
	space()
}

func writeStringSomehow(t *rapid.T, w *strings.Builder, s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch must := r < ' ' || r == '"' || r == '\\'; {
		case !must && !rapid.Bool().Draw(t, "escape"):
			w.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(w, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "case"), r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(w, `\u%04x\u%04X`, high, low)
		}
	}
	w.WriteByte('"')
}
