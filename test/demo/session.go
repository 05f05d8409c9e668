package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A session is the text of a terminal session in the tutorial: commands and their outputs. It replaces all values that differ each time the
// demo runs: ids, times, digests and paths.
type session struct {
	on    bool
	lines []string
	known map[string]string // paths that this demo uses, and their replacements
}

// add appends a command and its output.
func (s *session) add(words, printed string) {
	if s == nil || !s.on {
		return
	}
	s.line("$ " + words)
	for line := range strings.Lines(printed) {
		s.line(strings.TrimRight(line, "\n"))
	}
	s.line("")
}

// remark appends a comment.
func (s *session) remark(text string) {
	if s != nil && s.on {
		s.line("# " + text)
		s.line("")
	}
}

const sessionWidth = 120 // columns; longer lines are cut

func (s *session) line(text string) {
	text = s.steady(text)
	if runes := []rune(text); len(runes) > sessionWidth {
		text = string(runes[:sessionWidth-1]) + "…"
	}
	s.lines = append(s.lines, strings.TrimRight(text, " "))
}

var differs = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\bs-[A-Z2-7]{26}\b`), "s-GCZVDELF2U6JLXVFYQ33AQHOTZ"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), strings.Repeat("41edce4a", 8)},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\b`), "2027-03-14 15:09:26 UTC"},
	{regexp.MustCompile(`\b\d+s ago\b`), "2s ago"},
	{regexp.MustCompile(`\bin \d+(\.\d+)?(µs|ms|s)$`), "in 4ms"},
}

// steady replaces the ids, times and digests, and the known paths.
func (s *session) steady(text string) string {
	for from, to := range s.known {
		text = strings.ReplaceAll(text, from, to)
	}
	for _, d := range differs {
		text = d.what.ReplaceAllString(text, d.as)
	}
	return text
}

// The marks on the page between which the session is placed.
const (
	sessionBegins = "<!-- The demo writes this, and fails when it is not so any more: make session -->\n```console\n"
	sessionEnds   = "```\n<!-- end of what the demo writes -->\n"
)

// compare compares the page with the session. With update it writes the session to the page.
func (s *session) compare(file string, update bool) error {
	raw, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return err
	}
	page := string(raw)
	begin, end := strings.Index(page, sessionBegins), strings.Index(page, sessionEnds)
	if begin < 0 || end < begin {
		return fmt.Errorf("%s does not say where the session stands", file)
	}
	begin += len(sessionBegins)
	want := strings.TrimRight(strings.Join(s.lines, "\n"), "\n") + "\n"
	if page[begin:end] == want {
		return nil
	}
	if update {
		return os.WriteFile(file, []byte(page[:begin]+want+page[end:]), 0o644)
	}
	shown, now := strings.Split(page[begin:end], "\n"), strings.Split(want, "\n")
	for i := range min(len(shown), len(now)) {
		if shown[i] != now[i] {
			return fmt.Errorf("%s shows a session that is not so any more (make session writes the new one); line %d was\n  %s\nand is\n  %s", file, i+1, shown[i], now[i])
		}
	}
	return errors.New(file + " shows a session that is longer, or shorter, than it is now (make session writes the new one)")
}
