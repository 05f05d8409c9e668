package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/files"
)

type changeResult struct {
	Path             string
	Created, Changed bool
	Replacements     int
	Added            int `json:"lines_added"`
	Removed          int `json:"lines_removed"`
	FirstLine        int `json:"first_line"`
	Size             int
}

func TestWrite(t *testing.T) {
	tests := []struct {
		name, path string
		before     *string
		content    string
		after      string
		want       changeResult
	}{
		{"new", "f", nil, "a\nb\n", "a\nb\n", changeResult{"f", true, true, 0, 2, 0, 1, 4}},
		{"new, empty", "f", nil, "", "", changeResult{"f", true, true, 0, 0, 0, 0, 0}},
		{"missing folders", "x/y/f", nil, "a", "a", changeResult{"x/y/f", true, true, 0, 1, 0, 1, 1}},
		{"in place of another", "f", new("a\nb\nc\n"), "a\nB\nc\n", "a\nB\nc\n", changeResult{"f", false, true, 0, 1, 1, 2, 6}},
		{"the same", "f", new("a\n"), "a\n", "a\n", changeResult{"f", false, false, 0, 0, 0, 0, 2}},
		{"CRLF stays", "f", new("a\r\nb\r\n"), "a\nc\n", "a\r\nc\r\n", changeResult{"f", false, true, 0, 1, 1, 2, 6}},
		{"CRLF given and kept", "f", new("a\r\n"), "b\r\nc\n", "b\r\nc\r\n", changeResult{"f", false, true, 0, 2, 1, 1, 6}},
		{"LF stays what is given", "f", new("a\n"), "b\r\n", "b\r\n", changeResult{"f", false, true, 0, 1, 1, 1, 3}},
		{"mixed is written as given", "f", new("a\r\nb\n"), "c\n", "c\n", changeResult{"f", false, true, 0, 1, 2, 1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, files.Config{})
			if tt.before != nil {
				b.put(tt.path, *tt.before)
				b.ok("read", object{"path": tt.path})
			}
			r := b.ok("write", object{"path": tt.path, "content": tt.content})
			if got := b.content(tt.path); got != tt.after {
				t.Errorf("file %q, want %q", got, tt.after)
			}
			if got := data[changeResult](t, r); got != tt.want {
				t.Errorf("data %+v, want %+v", got, tt.want)
			}
			// The thread wrote the file, so it knows the content and need not read it.
			b.ok("write", object{"path": tt.path, "content": "again\n"})
		})
	}
}

func TestWriteRefusals(t *testing.T) {
	b := newBench(t, files.Config{Limits: files.Limits{FileSize: 100}})
	b.put("folder/f", "a\n")
	b.put("locked", "a\n")
	if err := os.Chmod(filepath.Join(b.dir, "locked"), 0o444); err != nil {
		t.Fatal(err)
	}
	b.refused("write", "IS_DIRECTORY", object{"path": "folder", "content": "x"})
	b.refused("write", "IS_DIRECTORY", object{"path": ".", "content": "x"})
	b.refused("write", "NOT_DIRECTORY", object{"path": "locked/f", "content": "x"})
	b.refused("write", "TOO_LARGE", object{"path": "big", "content": strings.Repeat("x", 101)})
	b.refused("write", "READ_ONLY_FILE", object{"path": "locked", "content": "x", "overwrite": true})
	if got := b.content("locked"); got != "a\n" {
		t.Errorf("read-only file: %q", got)
	}
	if entries, err := os.ReadDir(b.dir); err != nil || len(entries) != 2 {
		t.Errorf("refused writes left %v, %v", entries, err)
	}
}

func TestWriteFollowsLinksInside(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("actual/f", "a\n")
	b.link("actual", "folder")
	b.link("folder/f", "file")
	b.link("actual/new", "dangling")
	b.ok("read", object{"path": "file"}) // After the read, the thread knows the file under each of its names.
	b.ok("edit", object{"path": "folder/f", "old_text": "a", "new_text": "b"})
	b.ok("write", object{"path": "file", "content": "c\n"})
	b.ok("write", object{"path": "dangling", "content": "d\n"})
	if got := b.content("actual/f") + b.content("actual/new"); got != "c\nd\n" {
		t.Errorf("files %q", got)
	}
	for _, name := range []string{"folder", "file", "dangling"} {
		if info, err := os.Lstat(filepath.Join(b.dir, name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v", name, err)
		}
	}
	d := b.describe("edit", b.call(object{"path": "file", "old_text": "c", "new_text": "e"}))
	if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "symbolic link to actual/f") || d.Locations[0].Path != "actual/f" {
		t.Errorf("description %+v", d)
	}
}

func TestEdit(t *testing.T) {
	tests := []struct {
		name, before string
		args         object
		after        string
		replacements int
		reason       string
	}{
		{"once", "a b c\n", object{"old_text": "b", "new_text": "B"}, "a B c\n", 1, ""},
		{"deleted", "a b c\n", object{"old_text": " b", "new_text": ""}, "a c\n", 1, ""},
		{"all", "x x x\n", object{"old_text": "x", "new_text": "xx", "replace_all": true}, "xx xx xx\n", 3, ""},
		{"all of one", "x\n", object{"old_text": "x", "new_text": "y", "replace_all": true}, "y\n", 1, ""},
		{"twice", "x x\n", object{"old_text": "x", "new_text": "y"}, "", 0, "NOT_UNIQUE"},
		{"never", "x\n", object{"old_text": "y", "new_text": "z"}, "", 0, "NO_MATCH"},
		{"never, all", "x\n", object{"old_text": "y", "new_text": "z", "replace_all": true}, "", 0, "NO_MATCH"},
		{"several lines, CRLF", "a\r\nb\r\nc\r\n", object{"old_text": "a\nb\n", "new_text": "x\ny\nz\n"}, "x\r\ny\r\nz\r\nc\r\n", 1, ""},
		{"CRLF given", "a\r\nb\r\n", object{"old_text": "a\r\nb", "new_text": "c\r\nd"}, "c\r\nd\r\n", 1, ""},
		{"mixed, one line", "a\r\nb\n", object{"old_text": "b", "new_text": "c"}, "a\r\nc\n", 1, ""},
		{"lone CR stays", "a\rb\r\n", object{"old_text": "b", "new_text": "c"}, "a\rc\r\n", 1, ""},
		{"bytes that are no text stay", "caf\xe9 x\n", object{"old_text": "x", "new_text": "y"}, "caf\xe9 y\n", 1, ""},
		{"a dollar is a dollar", "a\n", object{"old_text": "a", "new_text": "$1 \\1 ${x}"}, "$1 \\1 ${x}\n", 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, files.Config{})
			b.put("f", tt.before)
			b.ok("read", object{"path": "f"})
			tt.args["path"] = "f"
			if tt.reason != "" {
				b.refused("edit", tt.reason, tt.args)
				if got := b.content("f"); got != tt.before {
					t.Errorf("refused edit changed the file: %q", got)
				}
				return
			}
			r := b.ok("edit", tt.args)
			if got := b.content("f"); got != tt.after {
				t.Errorf("file %q, want %q", got, tt.after)
			}
			if got := data[changeResult](t, r).Replacements; got != tt.replacements {
				t.Errorf("%d replacements, want %d", got, tt.replacements)
			}
			if len(r.Content) != 1 || r.Content[0].Type != tool.ContentDiff || r.Display != tool.DisplayDiff {
				t.Errorf("no diff: %+v", r.Content)
			}
		})
	}
}

func TestEditErrorShowsTheRightInput(t *testing.T) {
	b := newBench(t, files.Config{Limits: files.Limits{FileSize: 1000}})
	b.put("f", "func a() {\n\tx := 1\n\treturn x\n}\n")
	b.put("mixed", "a\r\nb\nc\n")
	b.put("binary", "a\x00b")
	b.put("many", strings.Repeat("x\n", 20))
	tests := []struct {
		reason, hint string
		args         object
	}{
		{"NO_MATCH", "Line 2 matches except for white space", object{"path": "f", "old_text": "  x := 1\n  return x", "new_text": "y"}},
		{"NO_MATCH", "without line numbers", object{"path": "f", "old_text": "     2\tx := 1", "new_text": "y"}},
		{"NO_MATCH", "mixes CRLF and LF", object{"path": "mixed", "old_text": "a\nb", "new_text": "y"}},
		{"NOT_FOUND", "Use write", object{"path": "missing", "old_text": "a", "new_text": "y"}},
		{"IS_BINARY", "cannot be edited", object{"path": "binary", "old_text": "a", "new_text": "y"}},
		{"NOT_UNIQUE", "20 times in many, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …", object{"path": "many", "old_text": "x", "new_text": "y"}},
		{"TOO_LARGE", "would have 20020 bytes", object{"path": "many", "old_text": "x", "new_text": strings.Repeat("y", 1000), "replace_all": true}},
	}
	for _, tt := range tests {
		tt.args["overwrite"] = true
		if r := b.refused("edit", tt.reason, tt.args); !strings.Contains(r.ModelText(), tt.hint) {
			t.Errorf("%v: %q lacks %q", tt.args, r.ModelText(), tt.hint)
		}
	}
	for _, args := range []object{
		{"path": "f", "old_text": "", "new_text": "x"},
		{"path": "f", "old_text": "x", "new_text": "x"},
	} {
		if r := b.run("edit", args); !r.IsError() || r.Error.Code != tool.InvalidArguments {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestMultiEditIsAllOrNothing(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("f", "a b c\n")
	b.ok("read", object{"path": "f"})
	r := b.refused("multi_edit", "NO_MATCH", object{"path": "f", "edits": []object{
		{"old_text": "a", "new_text": "A"}, {"old_text": "missing", "new_text": "x"},
	}})
	if !strings.Contains(r.ModelText(), "edits[1].old_text") {
		t.Errorf("refusal does not name the edit: %s", r.ModelText())
	}
	if got := b.content("f"); got != "a b c\n" {
		t.Fatalf("refused edits changed the file: %q", got)
	}
	// Each edit is applied to the result of the previous edits.
	b.ok("multi_edit", object{"path": "f", "edits": []object{
		{"old_text": "a", "new_text": "x y"}, {"old_text": "y b", "new_text": "x"}, {"old_text": "x", "new_text": "z", "replace_all": true},
	}})
	if got := b.content("f"); got != "z z c\n" {
		t.Errorf("edited file: %q", got)
	}
	for _, edits := range [][]object{{}, {{"old_text": "", "new_text": "x"}}, make([]object, 101)} {
		if r := b.run("multi_edit", object{"path": "f", "edits": edits}); !r.IsError() || r.Error.Code != tool.InvalidArguments {
			t.Errorf("%d edits: %+v", len(edits), r)
		}
	}
}

func TestEditsAtTheSameTimeLoseNothing(t *testing.T) {
	b := newBench(t, files.Config{})
	const n = 40
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "old %02d\n", i)
	}
	b.put("f", text.String())
	var calls sync.WaitGroup
	for i := range n {
		call := b.call(object{"path": "f", "old_text": fmt.Sprintf("old %02d", i), "new_text": fmt.Sprintf("new %02d", i), "overwrite": true})
		calls.Go(func() {
			if r, err := b.tools["edit"].Execute(t.Context(), call); err != nil || !r.IsSuccess() {
				t.Errorf("edit %d: %+v, %v", i, r, err)
			}
		})
	}
	calls.Wait()
	if got := b.content("f"); got != strings.ReplaceAll(text.String(), "old", "new") {
		t.Errorf("an edit was lost:\n%s", got)
	}
}
