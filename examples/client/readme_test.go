package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const readme = "../../README.md"

// What somebody copies from the README works beside a daemon of "make run".
func TestReadmeWorksByCopyAndPaste(t *testing.T) {
	p := newPlace(t)
	const found = "notes.txt:1:TODO: water the plants"
	wants := []struct{ in, out string }{
		{"echo 'TODO", ""},
		{"bin/toold call grep", found},
		{"grpcurl", found},
		{"go run ./examples/client", found},
		{"bin/toold inbox", "workspace-was-here.txt"},
	}
	blocks := p.run(t, blocksOf(t, readme, "sh"))
	if len(blocks) != len(wants) {
		t.Fatalf("the README has %d blocks of shell, %d are known here", len(blocks), len(wants))
	}
	for i, want := range wants {
		if !strings.Contains(blocks[i].text, want.in) || !strings.Contains(blocks[i].output, want.out) {
			t.Errorf("block %d should hold %q and print %q:\n%s\nprinted:\n%s", i+1, want.in, want.out, blocks[i].text, blocks[i].output)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "workspace", "workspace-was-here.txt")); !os.IsNotExist(err) {
		t.Errorf("the command that waits for approval has run: %v", err)
	}
}

// The Go of the README is that of the examples, which are built and run.
func TestReadmeQuotesTheExamples(t *testing.T) {
	var code strings.Builder
	for _, file := range []string{"main.go", "../greet/greet.go", "../protect/protect.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	blocks := blocksOf(t, readme, "go")
	if len(blocks) != 3 {
		t.Errorf("the README has %d pieces of Go, a client, a tool and a gate were to be there", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(code.String(), b) {
			t.Errorf("not in the examples:\n%s", b)
		}
	}
}

// Links to files of the repository lead somewhere, from every page that is for users.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	pages := []string{readme, "../../CHANGELOG.md", "../../docs/reference/grpcurl.md"}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), found[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, found[1], err)
			}
		}
	}
}

// The README's commands of make are there.
func TestMakeHasWhatTheReadmeNames(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^make ([a-z-]+)`).FindAllStringSubmatch(string(text), -1)
	if len(named) < 3 {
		t.Errorf("the README names %v", named)
	}
	lines := strings.Split(string(makefile), "\n")
	for _, target := range named {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, target[1]+":") }) {
			t.Errorf("the Makefile has no %s", target[1])
		}
	}
}
