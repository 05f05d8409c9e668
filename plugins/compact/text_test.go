package compact_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toold-dev/toold/plugins/compact"
)

func TestText(t *testing.T) {
	many := strings.Repeat("warning: x is deprecated\n", 125)
	tests := []struct {
		name, in, want string
		done           compact.Done
	}{
		{"plain", "a\n\tb\r\nc", "a\n\tb\r\nc", compact.Done{}},
		{"empty", "", "", compact.Done{}},
		{"colour", "\x1b[1;31merror\x1b[0m: no", "error: no", compact.Done{Escapes: 2}},
		{"colon parameters", "\x1b[38:2::1:2:3mred", "red", compact.Done{Escapes: 1}},
		{"private mode, intermediate", "\x1b[?25l\x1b[1 qx\x1b(B", "x", compact.Done{Escapes: 3}},
		{"title and link", "\x1b]0;title\x07\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text", compact.Done{Escapes: 3}},
		{"eight bits", "\u009b31mred\u009b0m\u0085", "red", compact.Done{Escapes: 3}},
		{"string without end keeps the text", "\x1b]0;title\nline\x07", "]0;title\nline", compact.Done{Escapes: 2}},
		{"broken", "\x1b[12\nx\x1b", "[12\nx", compact.Done{Escapes: 2}},
		{"escape in an escape", "\x1b\x1b[0m[0m", "[0m", compact.Done{Escapes: 2}},
		{"a letter of two bytes behind an escape", "\x1bé", "é", compact.Done{Escapes: 1}},
		{"progress", " 1%\r 2%\r100%\ndone\n", "100%\ndone\n", compact.Done{Overwritten: 2}},
		{"progress by column", "1%\x1b[1G2%\x1b[2K\x1b[G3%\n", "3%\n", compact.Done{Escapes: 3, Overwritten: 2}},
		{"progress that is open", "1%\r2%\r", "2%", compact.Done{Overwritten: 1}},
		{"progress with DOS ends", "1%\r2%\r\n", "2%\r\n", compact.Done{Overwritten: 1}},
		{"wiped", "50%\r    \r\n", "\r\n", compact.Done{Overwritten: 1}},
		{"spinner", "|\b/\b-\bdone\b\n", "don\n", compact.Done{Escapes: 4}},
		{"repeated", "a\n" + many + "b\n", "a\nwarning: x is deprecated\n… 124 more lines like this\nb\n", compact.Done{Folded: 124}},
		{"repeated to the end", strings.TrimSuffix(many, "\n"), "warning: x is deprecated\n… 124 more lines like this", compact.Done{Folded: 124}},
		{"folding would be longer", "a\na\na\na\n", "a\na\na\na\n", compact.Done{}},
		{"twice is no run", strings.Repeat(strings.Repeat("long", 30)+"\n", 2), strings.Repeat(strings.Repeat("long", 30)+"\n", 2), compact.Done{}},
		{"what looks like a fold", strings.Repeat("… 3 more lines like this\n", 9), strings.Repeat("… 3 more lines like this\n", 9), compact.Done{}},
		{"no UTF-8", "a\xffb\xc2", "ab", compact.Done{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, done := compact.Text(tt.in); got != tt.want || done != tt.done {
				t.Errorf("Text(%q) = %q, %+v, want %q, %+v", tt.in, got, done, tt.want, tt.done)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	for _, seed := range []string{
		"", "plain\ntext\n", "\x1b[31mred\x1b[0m", "\x1b]8;;http://x\x1b\\l\x1b]8;;\x07", "\u009b1mx\u009d0;t\u009c", "1%\r2%\r\n\b\bx\b", "\x1b[G\n\x1b[1G\r\r\n",
		strings.Repeat("the same line again and again\n", 5) + strings.Repeat("… 4 more lines like this\n", 5), "\x1b\x1b[0m[0m\x9b\xc2\x1b\x9b", strings.Repeat("\r\n", 99),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, done := compact.Text(text)
		if !utf8.ValidString(got) {
			t.Fatalf("Text(%q) = %q is not UTF-8", text, got)
		}
		if len(got) > len(text) {
			t.Fatalf("Text(%q) = %q is longer", text, got)
		}
		again, more := compact.Text(got)
		if again != got || more != (compact.Done{}) {
			t.Fatalf("Text(%q) = %q, and of that %q, %+v", text, got, again, more)
		}
		if done == (compact.Done{}) && utf8.ValidString(text) && strings.Map(ends, got) != strings.Map(ends, text) {
			t.Fatalf("Text(%q) = %q, and it says nothing of it", text, got)
		}
	})
}

// ends drops characters that may change without being counted.
func ends(r rune) rune {
	if r == '\r' || r == ' ' {
		return -1
	}
	return r
}

func TestCompactor(t *testing.T) {
	long := strings.Repeat("the same line\n", 1000)
	c, err := compact.New(compact.Config{Tools: []string{"ba*"}})
	if err != nil {
		t.Fatal(err)
	}
	short, did, ok := c.Compact("bash", long)
	if !ok || short != "the same line\n… 999 more lines like this\n" || !strings.Contains(did, "999 repeated lines folded") {
		t.Errorf("%q, %q, %t", short, did, ok)
	}
	for tool, text := range map[string]string{
		"read": long, // the tool is not configured
		"bash": long[:4<<10-1],
		"bat":  strings.Repeat("different each time ", 500) + "\x1b[0m", // unchanged, because too few bytes would be saved
	} {
		if _, _, ok := c.Compact(tool, text); ok {
			t.Errorf("the text of %s is made shorter", tool)
		}
	}
	for _, bad := range []compact.Config{{Tools: []string{"["}}, {Tools: []string{""}}, {From: -1}, {From: 2 << 20}} {
		if _, err := compact.New(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func BenchmarkText(b *testing.B) {
	log := strings.Repeat("\x1b[32mok\x1b[0m package/of/a/build 0.31s\n", 200) + strings.Repeat(" 10% of the download\r", 500) + strings.Repeat("note: the same\n", 300)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		compact.Text(log)
	}
}
