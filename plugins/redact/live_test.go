package redact_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/plugins/redact"
	"github.com/toold-dev/toold/tool"
)

func printed(events []call.Event) (text string) {
	for _, e := range events {
		if e.Output != nil {
			text += string(e.Output.Bytes)
		}
	}
	return text
}

// The test checks that a value that becomes known during a call is redacted from then on, also in an open stream, and whatever Swap does
// (T79).
func TestKnownWhileACallRuns(t *testing.T) {
	l := redact.NewLive(newRedactor(t, redact.Config{Values: []redact.Value{{Name: "old", Text: "the-old-secret"}}}))
	filter, background := l.Filter(&hook.Input{}), l.Stream()
	out := func(text string) string {
		events, _ := filter(call.Event{Type: call.EventOutput, Output: &call.Output{Stream: "stdout", Bytes: []byte(text)}})
		return printed(events) + string(background.Next([]byte(text)))
	}
	got := out("begins, the-old-")
	if err := l.Know("new", "a-new-secret"); err != nil {
		t.Fatal(err)
	}
	got += out("secret, a-new-")
	l.Swap(newRedactor(t, redact.Config{Values: []redact.Value{{Name: "other", Text: "another-secret"}}}))
	got += out("secret, the-old-secret, another-secret.\n")
	message, _ := filter(call.Event{Type: call.EventProgress, Progress: &tool.Progress{Message: "the-old-secret a-new-secret"}})
	if text := message[0].Progress.Message; text != "[redacted:old] [redacted:new]" {
		t.Errorf("progress says %q", text)
	}
	for _, part := range []string{"begins, ", "[redacted:old], ", "[redacted:new], ", "[redacted:old], [redacted:other].\n"} {
		if strings.Count(got, part) < 2 { // Each part must occur in the output of the call and in the output of the background stream.
			t.Errorf("%q is not twice in %q", part, got)
		}
	}
	if text := l.Text("the-old-secret a-new-secret another-secret"); text != "the-old-secret [redacted:new] [redacted:other]" {
		t.Errorf("what begins now says %q", text)
	}
}

// The test checks that the event of a decision has no secret in the answer or in a result in the tool's place (T79).
func TestDecisionsAreRedacted(t *testing.T) {
	given := tool.Decision{Reason: "correct-horse", Result: `"correct-horse"`, ResultInstead: &tool.ResultInstead{Data: `"correct-horse"`, Message: "correct-horse", Error: true}}
	filter := redact.NewLive(known(t)).Filter(&hook.Input{})
	events, _ := filter(call.Event{Type: call.EventResumed, Decision: &given})
	d := events[0].Decision
	if d.Reason != "[redacted]" || d.Result != `"[redacted]"` || *d.ResultInstead != (tool.ResultInstead{Data: `"[redacted]"`, Message: "[redacted]", Error: true}) {
		t.Errorf("the event says %+v %+v", d, d.ResultInstead)
	}
	if given.ResultInstead.Message != "correct-horse" {
		t.Error("the filter changed the decision itself")
	}
}

func TestKnowRefuses(t *testing.T) {
	l := redact.NewLive(newRedactor(t, redact.Config{}))
	for _, text := range []string{"short", strings.Repeat("x", redact.MaxValue+1), "with [redacted in it"} {
		if err := l.Know("s", text); err == nil || strings.Contains(err.Error(), text) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// The test checks that the newest values of each name are still redacted, and that the number of values is limited.
func TestKnowForgetsTheOldest(t *testing.T) {
	l := redact.NewLive(newRedactor(t, redact.Config{}))
	if err := l.Know("other", "kept-for-ever"); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := l.Know("s", fmt.Sprintf("value-%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Text("value-0043 value-0044 value-0299 kept-for-ever"); got != "value-0043 [redacted:s] [redacted:s] [redacted:other]" {
		t.Errorf("text %q", got)
	}
}

// The test calls Know before the first byte of the value, and splits the text with the value into any chunks. It checks that the value is
// redacted, and nothing else.
func TestKnowInChunks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := redact.NewLive(newRedactorOf(t, redact.Config{Tokens: true, Values: []redact.Value{{Text: "correct-horse"}, {Text: "abababab"}}}))
		s := l.Stream()
		before := rapid.SampledFrom([]string{"", "plain ", "correct-", "abab", "sk-", "Bearer "}).Draw(t, "before")
		got := string(s.Next([]byte(before)))
		if err := l.Know("new", "correct-new-value"); err != nil {
			t.Fatal(err)
		}
		text := "|correct-new-value|correct-horse|"
		for len(text) > 0 {
			n := min(rapid.IntRange(1, 9).Draw(t, "chunk"), len(text))
			got += string(s.Next([]byte(text[:n])))
			text = text[n:]
		}
		if got += string(s.End()); got != before+"|[redacted:new]|[redacted]|" {
			t.Fatalf("%q became %q", before, got)
		}
	})
}

func newRedactorOf(t *rapid.T, cfg redact.Config) *redact.Redactor {
	r, err := redact.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
