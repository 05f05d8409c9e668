package inbox

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/toold-dev/toold/cli/show"
	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// These tests are inside the package because they need states that a real terminal cannot produce on demand. Tests of package daemon use
// the inbox on a real terminal.

func TestKeys(t *testing.T) {
	for sent, want := range map[string]string{
		"jKj":                            "j K j",
		"\r\n\t\x7f\x08\x03\x15":         "enter enter tab backspace backspace ctrl-c ctrl-u",
		"\x1b[A\x1bOB\x1b[5~\x1b":        "up down pageup escape",
		"\x1b[1;5A\x1b[99~ä宽":            "ä 宽",
		"\x1b[200~ay\x1b[Aq\r\x1b[201~j": "paste(ay\x1b[Aq\r) j",
		"\x1bq":                          "escape q",
		"\xff\xfej":                      "j",
		"\x1b[200~a":                     "",
	} {
		var got []string
		keys, _ := decodeKeys([]byte(sent), true)
		for _, k := range keys {
			switch {
			case k.name == "paste":
				got = append(got, "paste("+k.text+")")
			case k.text == " ":
				got = append(got, "space")
			default:
				got = append(got, k.name+k.text)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q is %q, want %q", sent, s, want)
		}
	}
}

// FuzzKeys checks that the decoder reads all input and that its result does not depend on how the input is split.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[200~text\x1b[201~\x1b[A"), 3)
	f.Add([]byte("\x1b\x1b[;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;"), 7)
	f.Add([]byte("ä\xe5\xae"), 1)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		whole, rest := decodeKeys(b, false)
		for _, k := range whole {
			if !utf8.ValidString(k.text) && k.name != "paste" || k == (key{}) {
				t.Errorf("key %+v", k)
			}
		}
		at = max(min(at, len(b)), 0)
		first, kept := decodeKeys(b[:at:at], false)
		second, left := decodeKeys(append(slices.Clone(kept), b[at:]...), false)
		if !slices.Equal(slices.Concat(first, second), whole) || string(left) != string(rest) {
			t.Errorf("cut at %d: %+v %+v, whole %+v", at, first, second, whole)
		}
		if _, more := decodeKeys(b, true); more != nil {
			t.Errorf("%q is left at the end", more)
		}
	})
}

// FuzzForm checks that a form has fields for every schema, and that it accepts each line or complains about it.
func FuzzForm(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":["null","integer"]},"b":{"enum":[1,"x",null]},"c":{"type":"array","items":{"const":true}}},"required":["a"]}`, "1")
	f.Add(`{"type":"array","items":{"enum":["a","b"]}}`, "1, 2")
	f.Add(`true`, `{"a":1}`)
	f.Add(`{"properties":{"a":`, "")
	f.Fuzz(func(t *testing.T, schema, typed string) {
		form := newForm(schema)
		for range len(form.fields) {
			before := form.at
			if complaint, done := form.take(typed); complaint != "" && done || complaint == "" && form.at != before+1 {
				t.Fatalf("%q: %q, %t", typed, complaint, done)
			} else if complaint != "" {
				return
			}
		}
	})
}

func waiting(id int) *tooldv1.Call {
	s := &tooldv1.Suspension{
		SuspensionId: fmt.Sprint("s-", id), Action: "approval", ResumeMode: tooldv1.ResumeMode_RESUME_MODE_REPLAY_TOOL_CALL,
		CreatedAt: timestamppb.New(time.Unix(int64(id), 0)), Message: strings.Repeat("\x1b[31m宽\u202e ", id*7),
		Pending: &tooldv1.PendingCall{Id: fmt.Sprint("c-", id), Name: "tool", Arguments: `{"text":"` + strings.Repeat(`a\nb\t`, id*5) + `"}`},
	}
	if id%3 == 0 {
		s.ResponseSchema = `{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"type":"boolean","title":"` + strings.Repeat("t", 200) + `"}}}`
	}
	if id%2 == 0 {
		s.Approvers = &tooldv1.Approvers{Count: 2}
	}
	for i := range id * 3 {
		s.RememberOptions = append(s.RememberOptions, &tooldv1.RememberOption{Option: fmt.Sprint("kept ", i, strings.Repeat(" 宽\u202e", id*9))})
	}
	run := &tooldv1.Run{RunId: strings.Repeat("r", id*13), ThreadId: strings.Repeat("t", id*13)}
	return &tooldv1.Call{CallId: fmt.Sprint("c-", id), Tool: "tool", Suspension: s, Run: run}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// TestModel presses random keys while the list changes. The screen must always fit, and a decision must concern the call for which it was
// started.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		m.view = show.View{Now: time.Unix(1000, 0), Color: true}
		begun := ""
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "resized") == 0 || m.width == 0 {
				m.width, m.height = rapid.IntRange(1, 120).Draw(t, "width"), rapid.IntRange(1, 50).Draw(t, "height")
			}
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				var calls []*tooldv1.Call
				for id := range 6 {
					if rapid.Bool().Draw(t, "there") {
						calls = append(calls, waiting(id))
					}
				}
				m.list(calls, false)
			case 1:
				if len(m.entries) > 0 {
					m.remove(rapid.SampledFrom(m.entries).Draw(t, "removed"))
				}
			default:
				before := m.mode
				w := m.press(decoded(rapid.SampledFrom([]string{"a", "a", "a", "a", "y", "y", "y", "y", "y", "y", "n", "e", "d", "j", "k", "G", "g", "\r", " ", "b", "1", "1", "9", "w", "r", "t", "x", "?", "\x7f", "\x1b[A"}).Draw(t, "key")))
				if e := m.chosen(); before < confirming && (m.mode >= confirming || w == edit) {
					begun = e.id()
				}
				switch {
				case w == edit && rapid.Bool().Draw(t, "saved"):
					m.edited(`{"text":"new"}`)
				case w == decide:
					if e := m.chosen(); m.tooSmall() || e == nil || e.settled || e.sent || e.id() != begun || before < confirming {
						t.Fatalf("decided about %+v, begun with %s", e, begun)
					}
					m.chosen().sent = true
				}
			}
			fits(t, m)
		}
	})
}

func decoded(sent string) key {
	keys, _ := decodeKeys([]byte(sent), true)
	return keys[0]
}

func fits(t *rapid.T, m *model) {
	f := m.draw()
	if len(f.lines) != m.height {
		t.Fatalf("%d lines on a screen of %d", len(f.lines), m.height)
	}
	for _, line := range f.lines {
		bare := sgr.ReplaceAllString(line, "")
		if show.Columns(bare) > m.width || strings.ContainsAny(bare, "\x1b\n\t\r") {
			t.Fatalf("%q on a screen of %d columns", bare, m.width)
		}
	}
	if f.row >= m.height || f.column >= max(m.width, 1) {
		t.Fatalf("the cursor is at %d, %d", f.row, f.column)
	}
}
