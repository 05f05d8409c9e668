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

const tutorials = "../../docs/tutorials/"

// The commands of the README and the tutorials work with a daemon of "make run".
func TestPagesWorkByCopyAndPaste(t *testing.T) {
	const found = "notes.txt:1:TODO: water the plants"
	type want struct{ in, out string }
	for page, wants := range map[string][]want{
		readme:                      {{"bin/toold call grep", found}, {"bin/toold inbox", "workspace-was-here.txt"}},
		tutorials + "first-call.md": {{"echo 'TODO", ""}, {"bin/toold call grep", found}, {"curl", found}, {"grpcurl", found}, {"go run ./examples/client", found}},
		tutorials + "approval.md":   {{"bin/toold inbox", "workspace-was-here.txt"}},
		tutorials + "agent.md": {
			{"go build", ""}, {"-recording", ""}, {"bin/agent", "water the plants"}, {"kill -9", ""}, {"bin/toold approve", "The plan is in plan.txt.\n"},
			{"cat workspace/plan.txt", "water the plants\n"},
		},
	} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			p := newSetup(t)
			blocks := p.run(t, blocksOf(t, page, "sh"))
			if len(blocks) != len(wants) {
				t.Fatalf("%s has %d blocks of shell, %d are known here", page, len(blocks), len(wants))
			}
			for i, want := range wants {
				if !strings.Contains(blocks[i].text, want.in) || !strings.Contains(blocks[i].output, want.out) {
					t.Errorf("block %d should hold %q and print %q:\n%s\nprinted:\n%s", i+1, want.in, want.out, blocks[i].text, blocks[i].output)
				}
			}
			if _, err := os.Stat(filepath.Join(p.dir, "workspace", "workspace-was-here.txt")); !os.IsNotExist(err) {
				t.Errorf("the command that waits for approval has run: %v", err)
			}
		})
	}
}

// The Go code on these pages is a copy of the examples, which are built and run.
func TestPagesQuoteTheExamples(t *testing.T) {
	var code strings.Builder
	files := []string{"main.go", "../greet/greet.go", "../protect/protect.go", "../embedded/main.go", "../agent/go/main.go", "../../sdk/go/README.md", "../../sdk/go/example_test.go"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	for _, page := range []string{readme, tutorials + "first-call.md", tutorials + "gate.md", tutorials + "agent.md", "../../docs/how-to/move-from-in-process-tools.md"} {
		blocks := blocksOf(t, page, "go")
		if len(blocks) == 0 {
			t.Errorf("%s has no Go", page)
		}
		for _, b := range blocks {
			if !strings.Contains(code.String(), b) {
				t.Errorf("%s quotes what is not in the examples:\n%s", page, b)
			}
		}
	}
}

// The make targets that the README names exist.
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
