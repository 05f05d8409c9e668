package shell_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/shell"
)

// FuzzAssess checks rules that hold for every text. The assessment of the text ends, and a second assessment gives the same result. When an
// rm command is appended to the text, the assessment finds it. A text that does not parse counts as destructive, so the rm cannot be missed
// there either.
func FuzzAssess(f *testing.F) {
	for _, r := range table(f) {
		f.Add(r.command)
	}
	tools, _, err := shell.New(shell.Config{Exec: script{}, Dir: "/srv/ws"})
	if err != nil {
		f.Fatal(err)
	}
	x := tools[0]
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 64<<10 {
			return
		}
		parts, ok := shell.Split(text)
		again, okAgain := shell.Split(text)
		if !reflect.DeepEqual(parts, again) || ok != okAgain {
			t.Fatalf("%q has two answers: %v %t, %v %t", text, parts, ok, again, okAgain)
		}
		if first, second := assess(x, text), assess(x, text); !reflect.DeepEqual(first, second) {
			t.Fatalf("%q has two assessments: %+v, %+v", text, first, second)
		}
		for _, p := range parts {
			if p.Text == "" || p.Safety == "" {
				t.Errorf("%q has the part %+v", text, p)
			}
		}
		if !takesSuffix(text) {
			return
		}
		if got := assess(x, text+"; rm -rf x"); got.Safety != tool.SafetyDestructive {
			t.Errorf("%q and an rm = %+v", text, got)
		}
	})
}

// takesSuffix reports whether bash would run "; rm -rf x" when it is appended to text. bash does not run it when the suffix becomes part of
// a comment or a here-document, or when the semicolon is escaped.
func takesSuffix(text string) bool {
	last := text[strings.LastIndexByte(text, '\n')+1:]
	return !strings.HasSuffix(text, `\`) && !strings.Contains(last, "#") && !strings.Contains(text, "<<")
}

// The test runs commands that are assessed as read-only, and checks that they change nothing.
func TestReadersChangeNothing(t *testing.T) {
	for _, r := range table(t) {
		if r.letter != "R" {
			continue
		}
		dir := t.TempDir()
		fill(t, dir)
		before := list(t, dir)
		if _, got := run(t, bash(t, shell.Config{Dir: dir}), object{"command": r.command, "timeout": 20}); got.TimedOut {
			t.Errorf("%q did not end", r.command)
		}
		if after := list(t, dir); !reflect.DeepEqual(before, after) {
			t.Errorf("%q changed %v to %v", r.command, before, after)
		}
	}
}

func fill(t *testing.T, dir string) {
	t.Helper()
	for name, text := range map[string]string{
		"a": "x\n", "b": "x\n", "a.txt": "b\na\nx\n", "b.txt": "b\n", "a.csv": "1,2,3\n", "a.json": `{"a":{"b":1}}`, "a.go": "package a\n", "go.mod": "module a\n",
		"README.md": "hello\n", "src/main.go": "package main\n// TODO /api/v1\n", "sub/a": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// list returns the files below a directory and their contents.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			files[path] = ""
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
