package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSession(t *testing.T) {
	s := &session{on: true, known: map[string]string{"/somewhere/bin/toold": "toold"}}
	s.add("toold inbox", "/somewhere/bin/toold approve s-ABCDEFGHIJKLMNOPQRSTUVWXYZ\ncall 01a1fde3-0f48-7648-9657-d45f1ea6c6e1  \nsucceeded  in 345µs\n"+
		"waits since  2026-11-21 11:34:38 UTC (17s ago)\ndigest "+strings.Repeat("0a1b", 16)+"\n")
	s.on = false
	s.add("toold secret", "not shown")
	want := "$ toold inbox\ntoold approve s-GCZVDELF2U6JLXVFYQ33AQHOTZ\ncall 0198c1c2-5c1e-7a4b-9d3e-1f2a3b4c5d6e\nsucceeded  in 4ms\n" +
		"waits since  2027-03-14 15:09:26 UTC (2s ago)\ndigest " + strings.Repeat("41edce4a", 8) + "\n"
	if got := strings.Join(s.lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	file := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nothing here")
	if err := s.compare(file, true); err == nil {
		t.Error("a page without the marks was taken")
	}
	write("before\n" + sessionBegins + "$ toold inbox\nsomething else\n" + sessionEnds + "after\n")
	if err := s.compare(file, false); err == nil || !strings.Contains(err.Error(), "line 2 was\n  something else\nand is\n  toold approve") {
		t.Errorf("another session was taken: %v", err)
	}
	if err := s.compare(file, true); err != nil {
		t.Fatal(err)
	}
	if err := s.compare(file, false); err != nil {
		t.Errorf("what was just written: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "before\n"+sessionBegins+want+sessionEnds+"after\n" {
		t.Errorf("%v: %s", err, b)
	}
}
