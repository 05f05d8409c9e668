package show_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func TestLineAndText(t *testing.T) {
	tests := []struct{ name, in, line, text string }{
		{"plain", "a b ü 日本", "a b ü 日本", "a b ü 日本"},
		{"ANSI", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`, `\x1b[31mred\x1b[0m`},
		{"one-byte CSI", "\u009b2J", `\u009b2J`, `\u009b2J`},
		{"lines", "a\tb\nc", `a\tb\nc`, "a\tb\nc"},
		{"overwrites the line", "safe\rrm", `safe\rrm`, `safe\rrm`},
		{"bidi", "\u202etxt.exe\u2066", `\u202etxt.exe\u2066`, `\u202etxt.exe\u2066`},
		{"nobody sees them", "a\u200b\u00a0\u3164\u2800\ufe0fb", `a\u200b\u00a0\u3164\u2800\ufe0fb`, `a\u200b\u00a0\u3164\u2800\ufe0fb`},
		{"tags", "\U000e0041", `\U000e0041`, `\U000e0041`},
		{"separators", "a\u2028b", `a\u2028b`, `a\u2028b`},
		{"not UTF-8", "a\xffb", `a\xffb`, `a\xffb`},
		{"replacement character", "\ufffd", "\ufffd", "\ufffd"},
		{"DEL and BEL", "\x7f\a", `\x7f\x07`, `\x7f\x07`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := show.Line(tt.in); got != tt.line {
				t.Errorf("Line = %q, want %q", got, tt.line)
			}
			if got := show.Text(tt.in); got != tt.text {
				t.Errorf("Text = %q, want %q", got, tt.text)
			}
		})
	}
}

// safe reports whether printing s to a terminal only displays it.
func safe(s string) bool {
	for _, r := range s {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r)) {
			return false
		}
	}
	return utf8.ValidString(s)
}

func FuzzSafe(f *testing.F) {
	f.Add([]byte("a\x1b[2J\u202e\xff"), uint8(2))
	f.Add([]byte(`{"a":"\u202e"}`), uint8(5))
	f.Fuzz(func(t *testing.T, b []byte, at uint8) {
		s := string(b)
		if got := show.Line(s); !safe(got) || strings.ContainsAny(got, "\n\t") {
			t.Errorf("Line(%q) = %q", s, got)
		}
		if got := view().Arguments(s); !safe(got) {
			t.Errorf("Arguments(%q) = %q", s, got)
		}
		var e show.Escaper
		cut := min(int(at), len(b))
		if got := e.Escape(b[:cut]) + e.Escape(b[cut:]) + e.Flush(); got != show.Text(s) {
			t.Errorf("in two pieces at %d: %q, in one: %q", cut, got, show.Text(s))
		}
		if json.Valid(b) && utf8.ValidString(s) {
			var before, after any
			if json.Unmarshal(b, &before) != nil {
				return // the number is out of range
			}
			got := show.JSON(s)
			if err := json.Unmarshal([]byte(got), &after); err != nil || !safe(strings.ReplaceAll(got, "\r", "")) {
				t.Errorf("JSON(%q) = %q, %v", s, got, err)
			}
			x, _ := json.Marshal(before)
			y, _ := json.Marshal(after)
			if string(x) != string(y) {
				t.Errorf("JSON(%q) says %s, want %s", s, y, x)
			}
		}
	})
}

// TestT66Ticket (T66) checks that an approver sees the arguments escaped, complete and with their length, whatever they contain.
func TestT66Ticket(t *testing.T) {
	const danger = "rm -rf / # the end"
	padding := map[string]string{
		"ten megabytes of spaces":     strings.Repeat(" ", 10<<20),
		"a megabyte of line breaks":   strings.Repeat("\n", 1<<20),
		"a megabyte of noise":         strings.Repeat("abcdefgh", 1<<17),
		"ANSI that clears the screen": "\x1b[2J\x1b[H\x1b]0;title\a",
		"a carriage return":           "echo harmless\r",
		"bidi":                        "\u202e\u2066",
		"backspaces":                  strings.Repeat("\b", 100),
	}
	for name, before := range padding {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(map[string]string{"command": "echo " + before + danger})
			if err != nil {
				t.Fatal(err)
			}
			c := ticket()
			c.Suspension.Pending.Arguments = string(raw)
			c.Suspension.Description = &tooldv1.Description{Title: "echo" + before, Notes: []string{before + danger}}
			c.Suspension.Message = before + danger
			got := view().Ticket(c, c.GetSuspension())
			if !safe(got) {
				t.Error("something reached the terminal that is no text")
			}
			_, arguments, found := strings.Cut(got, "\nArguments ")
			if !found || !strings.Contains(arguments, danger) || strings.Count(got, danger) < 3 { // the question and the note are escaped, too
				t.Errorf("the dangerous part is not shown: %.300q", arguments)
			}
			if size := "(" + show.Number(int64(len(raw))) + " bytes)"; !strings.HasPrefix(arguments, size) {
				t.Errorf("arguments begin with %.60q, want the length %s", arguments, size)
			}
			if strings.Contains(name, "spaces") && len(got) > 4000 {
				t.Errorf("the ticket has %d bytes; padding is to be counted, not shown", len(got))
			}
		})
	}
}

// TestT66Inbox (T66) checks that an inbox entry is short and says how much it omits.
func TestT66Inbox(t *testing.T) {
	c := ticket()
	c.Suspension.Pending.Arguments = `{"command":"` + strings.Repeat("ab", 5<<20) + `; rm -rf /"}`
	c.Suspension.Description.Title = strings.Repeat("long\x1b ", 1000)
	got := view().Waiting(c)
	if !safe(got) || len(got) > 1500 || !strings.Contains(got, "10,485,784 bytes in all") {
		t.Errorf("entry of %d bytes: %.600q", len(got), got)
	}
}

func TestUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 466 * time.Microsecond: "466µs", 178 * time.Millisecond: "178ms", 2100 * time.Millisecond: "2.1s", 3 * time.Second: "3s",
		59 * time.Second: "59s", 90 * time.Second: "1m30s", 2 * time.Hour: "2h", 71*time.Hour + 20*time.Minute: "2d23h", -time.Second: "-1s",
	} {
		if got := show.Duration(d); got != want {
			t.Errorf("Duration(%d) = %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 5 << 30: "5 GiB"} {
		if got := show.Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 10485760: "10,485,760", -1234: "-1,234"} {
		if got := show.Number(n); got != want {
			t.Errorf("Number(%d) = %s, want %s", n, got, want)
		}
	}
}
