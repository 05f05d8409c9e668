package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/files"
)

type globResult struct {
	Files     []struct{ Path string }
	Total     int
	Truncated bool
}

func (g globResult) paths() []string {
	var paths []string
	for _, f := range g.Files {
		paths = append(paths, f.Path)
	}
	return paths
}

func TestGlob(t *testing.T) {
	b := newBench(t, files.Config{})
	// The files get ascending modification times in this order.
	for i, name := range []string{
		"main.go", "src/a.go", "src/b.ts", "src/deep/er/c.go", "src/deep/d.tsx", ".hidden/e.go", ".git/config", "sub/.git/x.go", "x{y}.go", ".toold-A.tmp",
	} {
		b.put(name, "")
		at := time.Unix(int64(1_700_000_000+i), 0)
		if err := os.Chtimes(filepath.Join(b.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	b.link("main.go", "link.go")
	b.link("src", "linked")
	b.link("nowhere", "dangling.go")
	tests := []struct {
		args object
		want []string
	}{
		{object{"pattern": "*.go"}, []string{"x{y}.go", "link.go", "main.go"}},
		{object{"pattern": "**/*.go"}, []string{"x{y}.go", ".hidden/e.go", "src/deep/er/c.go", "src/a.go", "link.go", "main.go"}},
		{object{"pattern": "src/**/*.{ts,tsx}"}, []string{"src/deep/d.tsx", "src/b.ts"}},
		{object{"pattern": "**/*.go", "path": "src"}, []string{"src/deep/er/c.go", "src/a.go"}},
		{object{"pattern": "deep/**", "path": "src"}, []string{"src/deep/d.tsx", "src/deep/er/c.go"}},
		{object{"pattern": "src/../main.go"}, []string{"main.go"}},
		{object{"pattern": "./src/*.go"}, []string{"src/a.go"}},
		{object{"pattern": `x\{y\}.go`}, []string{"x{y}.go"}},
		{object{"pattern": "[lm]*.go"}, []string{"link.go", "main.go"}},
		{object{"pattern": "linked/*.go"}, []string{"linked/a.go"}}, // The link is part of the pattern, so it is followed.
		{object{"pattern": "config", "path": ".git"}, []string{".git/config"}},
		{object{"pattern": "missing/*.go"}, nil},
		{object{"pattern": "main.go/*.go"}, nil},
		{object{"pattern": "**/*.rs"}, nil},
	}
	for _, tt := range tests {
		r := b.ok("glob", tt.args)
		got := data[globResult](t, r)
		if !slices.Equal(got.paths(), tt.want) || got.Total != len(tt.want) || got.Truncated {
			t.Errorf("%v: %+v, want %v", tt.args, got, tt.want)
		}
		if len(tt.want) == 0 && r.Message != "No file matches." {
			t.Errorf("%v: %q", tt.args, r.Message)
		}
	}
	if r := b.ok("glob", object{"pattern": "*.tsx"}); !strings.Contains(r.Message, "**/ before it") {
		t.Errorf("no hint: %q", r.Message)
	}
	r := b.ok("glob", object{"pattern": "**/*.go", "limit": 2})
	if got := data[globResult](t, r); len(got.Files) != 2 || got.Total != 6 || !got.Truncated || !strings.Contains(r.Message, "newest 2 of 6 files") {
		t.Errorf("with a limit: %s %q", r.Data, r.Message)
	}
	b.refused("glob", "NOT_FOUND", object{"pattern": "*", "path": "missing"})
	b.refused("glob", "NOT_DIRECTORY", object{"pattern": "*", "path": "main.go"})
	for _, args := range []object{{"pattern": "[a"}, {"pattern": "{a"}, {"pattern": ""}, {"pattern": "a\x00"}, {"pattern": "*", "limit": 1001}} {
		if r := b.run("glob", args); !r.IsError() || r.Error.Code != tool.InvalidArguments {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestGlobKeepsTheNewestOfMany(t *testing.T) {
	b := newBench(t, files.Config{})
	for i := range 1500 {
		name := fmt.Sprintf("f%04d", i)
		b.put(name, "")
		at := time.Unix(int64(1_700_000_000+i*7919%1500), 0)
		if err := os.Chtimes(filepath.Join(b.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	got := data[struct {
		Files []struct{ Modified time.Time }
		Total int
	}](t, b.ok("glob", object{"pattern": "*", "limit": 10}))
	for i, f := range got.Files {
		if want := int64(1_700_000_000 + 1499 - i); f.Modified.Unix() != want {
			t.Errorf("file %d is of %d, want %d", i, f.Modified.Unix(), want)
		}
	}
	if len(got.Files) != 10 || got.Total != 1500 {
		t.Errorf("%d of %d files", len(got.Files), got.Total)
	}
}

func TestGrep(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("a.go", "one\ntwo TODO\nthree\nfour\nfive TODO\nsix\n")
	b.put("b.txt", "todo\r\nTODO end\r\n")
	b.put("src/c.go", "\ufeffTODO first\nlast TODO") // This file has no line end at its end.
	b.put("bin", "TODO\x00")
	b.put("late", strings.Repeat("x\n", 100_000)+"TODO\x00\n")
	b.put(".git/TODO", "TODO\n")
	b.put(".toold-A.tmp", "TODO\n")
	b.link("a.go", "link.go")
	tests := []struct {
		name string
		args object
		want string // expected part of the message
	}{
		{"all", object{"pattern": "TODO"}, "a.go:2:two TODO\na.go:5:five TODO\nb.txt:2:TODO end\nsrc/c.go:1:TODO first\nsrc/c.go:2:last TODO\n[5 matching lines in 3 files.]"},
		{"case", object{"pattern": "todo", "ignore_case": true, "glob": "*.txt"}, "b.txt:1:todo\nb.txt:2:TODO end\n[2 matching lines in 1 files.]"},
		{"one file", object{"pattern": "TODO", "path": "a.go"}, "a.go:2:two TODO\na.go:5:five TODO\n[2 matching lines in 1 files.]"},
		{"through a link", object{"pattern": "five", "path": "link.go"}, "link.go:5:five TODO\n[1 matching lines in 1 files.]"},
		{"folder", object{"pattern": "TODO", "path": "src"}, "src/c.go:1:TODO first\nsrc/c.go:2:last TODO\n[2 matching lines in 1 files.]"},
		{"glob by name", object{"pattern": "first|one", "glob": "*.go"}, "a.go:1:one\nsrc/c.go:1:TODO first\n[2 matching lines in 2 files.]"},
		{"glob by path", object{"pattern": "first|one", "glob": "src/**"}, "src/c.go:1:TODO first\n[1 matching lines in 1 files.]"},
		{"glob from the workspace", object{"pattern": "first", "glob": "src/*.go", "path": "src"}, "src/c.go:1:TODO first\n[1 matching lines in 1 files.]"},
		{"files", object{"pattern": "TODO", "output": "files"}, "a.go\nb.txt\nsrc/c.go\n[5 matching lines in 3 files.]"},
		{"count", object{"pattern": "TODO", "output": "count"}, "a.go:2\nb.txt:1\nsrc/c.go:2\n[5 matching lines in 3 files.]"},
		{"context", object{"pattern": "TODO", "context": 1, "glob": "a.go"}, "a.go-1-one\na.go:2:two TODO\na.go-3-three\na.go-4-four\na.go:5:five TODO\na.go-6-six\n[2 matching lines in 1 files.]"},
		{"before", object{"pattern": "five", "before": 2, "glob": "a.go"}, "a.go-3-three\na.go-4-four\na.go:5:five TODO\n[1 matching lines in 1 files.]"},
		{"after", object{"pattern": "one|six", "after": 1, "glob": "a.go"}, "a.go:1:one\na.go-2-two TODO\n--\na.go:6:six\n[2 matching lines in 1 files.]"},
		{"line ends, CRLF", object{"pattern": "^todo$"}, "b.txt:1:todo\n[1 matching lines in 1 files.]"},
		{"text ends mean line ends", object{"pattern": `\Afive.*\z`}, "a.go:5:five TODO\n[1 matching lines in 1 files.]"},
		{"no match across lines", object{"pattern": `one\s+two`}, "No line matches in 3 files searched."},
		{"a match that could go on", object{"pattern": `five[^x]+`}, "a.go:5:five TODO\n[1 matching lines in 1 files.]"},
		{"limit", object{"pattern": "TODO", "limit": 3}, "a.go:2:two TODO\na.go:5:five TODO\nb.txt:2:TODO end\n[5 matching lines in 3 files.]\n[3 of 5 matching lines are shown; narrow pattern, path or glob, or raise limit (3).]"},
		{"limit of files", object{"pattern": "TODO", "limit": 1, "output": "files"}, "a.go\n[5 matching lines in 3 files.]\n[1 of 3 files are shown; narrow pattern, path or glob, or raise limit (1).]"},
		{"limit and context", object{"pattern": "TODO", "limit": 1, "context": 1}, "a.go-1-one\na.go:2:two TODO\na.go-3-three\n[5 matching lines in 3 files.]\n[1 of 5 matching lines are shown; narrow pattern, path or glob, or raise limit (1).]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := b.ok("grep", tt.args).Message; got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	b.refused("grep", "IS_BINARY", object{"pattern": "TODO", "path": "bin"})
	b.refused("grep", "NOT_FOUND", object{"pattern": "TODO", "path": "missing"})
	for _, args := range []object{
		{"pattern": "("}, {"pattern": ""}, {"pattern": "a", "glob": "["}, {"pattern": "a", "context": 21}, {"pattern": "a", "output": "x"}, {"pattern": "a(?=b)"},
	} {
		if r := b.run("grep", args); !r.IsError() || r.Error.Code != tool.InvalidArguments || strings.Contains(r.ModelText(), "(?m)") {
			t.Errorf("%v: %s", args, r.ModelText())
		}
	}
}

func TestGrepCutsLongLinesAndLargeFiles(t *testing.T) {
	b := newBench(t, files.Config{Limits: files.Limits{ScanSize: 1 << 20}})
	b.put("wide", strings.Repeat("x", 300_000)+"far\n"+strings.Repeat("y", 1000)+"needle"+strings.Repeat("z", 1000)+"\nneedle\n")
	r := b.ok("grep", object{"pattern": "needle|far"})
	want := "wide:2:…" + strings.Repeat("y", 100) + "needle" + strings.Repeat("z", 394) + "…\nwide:3:needle\n"
	if !strings.HasPrefix(r.Message, want) || !strings.Contains(r.Message, "1 lines are long, and only their first 131072 bytes") {
		t.Errorf("got %.300q … %.300q", r.Message, r.Message[max(0, len(r.Message)-200):])
	}
	b.put("wide", strings.Repeat("0123456\n", 1<<17)+"needle\n")
	if r := b.ok("grep", object{"pattern": "needle"}); !strings.Contains(r.Message, "1 files are large, and only their first 1048576 bytes") {
		t.Errorf("large file: %q", r.Message)
	}
	b.put("wide", strings.Repeat("needle "+strings.Repeat("<\t>", 100)+"\n", 2000))
	r = b.ok("grep", object{"pattern": "needle", "limit": 2000})
	if got := data[struct{ Truncated bool }](t, r); !got.Truncated || !strings.Contains(r.Message, "of 2000 matching lines are shown") {
		t.Errorf("many long matches: %.200q", r.Message[len(r.Message)-200:])
	}
}

// The test checks that grep, which searches blocks, returns the same lines and context as a search of each line.
func TestGrepAgreesWithASearchLineByLine(t *testing.T) {
	patterns := []string{"a", "^a", "b$", `a\s`, "[^a]b", "", "x*", `\bab\b`, "(?-m)^ab$", "a+?b", `\z`, "(?s)a.b", "ba|ab"}
	b := newBench(t, files.Config{})
	for seed, length := range []int{0, 1, 5, 100, 2000, 131_072, 300_000} {
		text := make([]byte, length)
		state := uint32(seed + 1)
		for i := range text {
			state = state*1664525 + 1013904223
			text[i] = "aab b\n"[state>>24%6]
			if length > 10_000 && text[i] == '\n' && state>>16%20 > 0 {
				text[i] = 'c' // Replaces most line ends, so that a long text has few lines. It still has several blocks.
			}
		}
		b.put("f", string(text))
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if length == 0 {
			lines = nil
		}
		for _, p := range patterns {
			if p == "" {
				continue
			}
			re := regexp.MustCompile("(?m)" + p)
			want := 0
			for _, l := range lines {
				if re.MatchString(l) {
					want++
				}
			}
			for _, args := range []object{{"pattern": p, "output": "count"}, {"pattern": p, "context": 2}} {
				got := data[struct {
					MatchingLines int `json:"matching_lines"`
					Lines         []struct {
						Line    int
						Text    string
						Context bool
					}
				}](t, b.ok("grep", args))
				if got.MatchingLines != want {
					t.Errorf("%q in %d bytes: %d lines, want %d", p, length, got.MatchingLines, want)
				}
				last := 0
				for _, l := range got.Lines {
					whole := lines[l.Line-1]
					if l.Line <= last || len(whole) <= 500 && l.Text != whole || !l.Context && !re.MatchString(whole) {
						t.Fatalf("%q in %d bytes: line %d after %d is %q, want %q", p, length, l.Line, last, l.Text, whole)
					}
					last = l.Line
				}
			}
		}
	}
}

func TestGrepHonoursGitignore(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put(".gitignore", strings.Join([]string{
		"# comment", "", "*.log", "!keep.log", "/top.txt", "build/", "docs/*.md", "**/cache", "a/**/z", "tmp/**", `\#odd`, "sp\\ ", "trail   ", "{x}.c", "[!a-m].h", "name/", "!nothing/",
	}, "\n"))
	b.put("sub/.gitignore", "!debug.log\n/here\r\n*.txt\n")
	ignored := []string{
		"a.log", "sub/x.log", "top.txt", "build/x", "sub/build/x", "docs/a.md", "cache/x", "sub/deep/cache", "a/z", "a/b/z", "a/b/c/z", "tmp/x", "tmp/y/z",
		"#odd", "sp ", "trail", "{x}.c", "n.h", "sub/here", "sub/t.txt", "sub/deep/t.txt",
	}
	searched := []string{
		"keep.log", "sub/keep.log", "sub/debug.log", "other/top.txt", "other/build", "docs/sub/b.md", "x.c", "b.h", "sub/deep/here", "debug.txt", "name",
	}
	for _, name := range append(slices.Clone(ignored), searched...) {
		b.put(name, "needle\n")
	}
	got := data[struct{ Files []struct{ Path string } }](t, b.ok("grep", object{"pattern": "needle", "output": "files"}))
	var paths []string
	for _, f := range got.Files {
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	slices.Sort(searched)
	if !slices.Equal(paths, searched) {
		t.Errorf("searched\n%q\nwant\n%q", paths, searched)
	}
	// The .gitignore rules of parent folders apply inside a subfolder. A path in the arguments is searched even when it is ignored.
	if r := b.ok("grep", object{"pattern": "needle", "path": "sub/deep", "output": "files"}); !strings.HasPrefix(r.Message, "sub/deep/here\n[1 ") {
		t.Errorf("from below: %s", r.Message)
	}
	if r := b.ok("grep", object{"pattern": "needle", "path": "a.log"}); !strings.HasPrefix(r.Message, "a.log:1:needle") {
		t.Errorf("named file: %s", r.Message)
	}
	if r := b.ok("grep", object{"pattern": "needle", "path": "build"}); !strings.HasPrefix(r.Message, "build/x:1:needle") {
		t.Errorf("named folder: %s", r.Message)
	}
}

func BenchmarkGrep(b *testing.B) {
	w := newBench(b, files.Config{})
	line := "func handler(ctx context.Context, request *Request) (*Response, error) {\n"
	var size int64
	for i := range 1000 {
		text := strings.Repeat(line, 100) + fmt.Sprintf("needle %d\n", i)
		size += int64(len(text))
		w.put(fmt.Sprintf("d%d/f%d.go", i%20, i), text)
	}
	for _, pattern := range []string{"needle", "ne+dle \\d+$", "(?i)needle"} {
		b.Run(pattern, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			call := w.call(object{"pattern": pattern})
			for b.Loop() {
				if r, err := w.tools["grep"].Execute(b.Context(), call); err != nil || !r.IsSuccess() {
					b.Fatal(r, err)
				}
			}
		})
	}
}
