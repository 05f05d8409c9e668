// Package examples_test checks that the page for tool authors quotes the examples correctly.
package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePageQuotesWhatIsHere(t *testing.T) {
	page, err := os.ReadFile("../docs/how-to/write-tools-and-gates.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var code strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(b)
		lines := strings.Count(string(b), "\n")
		if !strings.HasSuffix(file, "_test.go") && lines >= 60 {
			t.Errorf("%s has %d lines; an example is read in one glance: fewer than 60", file, lines)
		}
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 5 {
		t.Errorf("the page quotes %d pieces of code", len(blocks))
	}
	for _, block := range blocks {
		quote, _, _ := strings.Cut(block, "```")
		if !strings.Contains(code.String(), quote) {
			t.Errorf("not in the examples:\n%s", quote)
		}
	}
}
