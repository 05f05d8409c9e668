package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toold-dev/toold/tools/files"
)

// FuzzPath checks that no path leads out of the workspace.
func FuzzPath(f *testing.F) {
	for _, s := range []string{
		"f", "../secret", "/etc/passwd", "/srv/ws/../secret", "out/secret", "d/../../secret", "d/up/f", "loop/x", `"\xff"`, `"../secret"`, "d//./f", "d/up/up/../secret", "d/up/../../secret", "",
	} {
		f.Add(s)
	}
	dir := f.TempDir()
	b := benchAt(f, filepath.Join(dir, "ws"), files.Config{Root: "/srv/ws"})
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("canary"), 0o644); err != nil {
		f.Fatal(err)
	}
	b.put("f", "inside")
	b.put("d/f", "inside")
	b.link("..", "out")
	b.link("..", "d/up")
	b.link("loop", "loop")
	f.Fuzz(func(t *testing.T, path string) {
		if !utf8.ValidString(path) {
			return // Arguments are JSON, so they must be valid UTF-8.
		}
		b.t = t
		for _, id := range []string{"read", "grep", "glob"} {
			args := object{"path": path, "pattern": "canary|.*"}
			if id == "glob" {
				args["pattern"] = "**"
			}
			r := b.run(id, args)
			if strings.Contains(r.Data+r.ModelText(), "canary\n") || strings.Contains(r.Data, `"secret"`) {
				t.Errorf("%s %q leads out: %s", id, path, r.Data)
			}
		}
	})
}

// FuzzEdit compares the results of edit with those of a simple implementation of its rules.
func FuzzEdit(f *testing.F) {
	f.Add("a b c\n", "b", "x", false)
	f.Add("a\r\nb\r\n", "a\nb", "x\ny", false)
	f.Add("xx", "x", "", true)
	f.Add("\r\r\n", "\r", "\n", true)
	f.Add("a\r\nb\n", "\n", "\r\n", true)
	b := newBench(f, files.Config{})
	f.Fuzz(func(t *testing.T, before, old, text string, all bool) {
		if old == "" || old == text || !utf8.ValidString(old) || !utf8.ValidString(text) || strings.Contains(before, "\x00") {
			return
		}
		b.t = t
		b.put("f", before)
		r := b.run("edit", object{"path": "f", "old_text": old, "new_text": text, "replace_all": all, "overwrite": true})
		lf := func(s string) string { return s }
		crlf := lf
		if n := strings.Count(before, "\r\n"); n > 0 && n == strings.Count(before, "\n") {
			lf = func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
			crlf = func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
		}
		n := strings.Count(lf(before), lf(old))
		want := before
		if n == 1 || n > 1 && all {
			want = crlf(strings.ReplaceAll(lf(before), lf(old), lf(text)))
		}
		if got := b.content("f"); got != want || r.IsSuccess() != (n == 1 || n > 1 && all) {
			t.Errorf("%q -> %q in %q: %q, want %q (%s)", old, text, before, got, want, r.ModelText())
		}
	})
}

// FuzzDiff checks that a diff describes exactly the change: applied to the old file, it gives the new one.
func FuzzDiff(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nc\n")
	f.Add("", "a")
	f.Add("a", "")
	f.Add("a\nb", "a\nb\n")
	f.Add("1\n2\n3\n4\n5\n6\n7\n8\n9\n0\n", "1\n3\n4\n5\n6\n7\n8\nx\n9\n0")
	f.Add("a\na\na\nb\na\n", "a\nb\na\na\n")
	b := newBench(f, files.Config{})
	f.Fuzz(func(t *testing.T, before, after string) {
		if !utf8.ValidString(before) || !utf8.ValidString(after) || strings.Contains(before, "\x00") || strings.Contains(before+after, "\r") {
			return
		}
		b.t = t
		b.put("f", before)
		d := b.describe("write", b.call(object{"path": "f", "content": after, "overwrite": true}))
		if before == after {
			if len(d.Preview) != 0 {
				t.Errorf("a diff of nothing: %q", d.Preview)
			}
			return
		}
		if len(d.Preview[0].Text) > 60_000 {
			return
		}
		got, err := patch(before, d.Preview[0].Text)
		if err != nil || got != after {
			t.Errorf("%q -> %q: patched to %q, %v:\n%s", before, after, got, err, d.Preview[0].Text)
		}
	})
}

// patch applies a unified diff. It returns an error when any part of the diff does not agree with before.
func patch(before, diff string) (string, error) {
	old := strings.SplitAfter(before, "\n")
	var out strings.Builder
	at, left, added := 0, 0, 0
	lines := strings.SplitAfter(diff, "\n")[2:]
	for i, l := range lines {
		if left == 0 && added == 0 && strings.HasPrefix(l, "@@ ") {
			fields := strings.Fields(l)
			start, count, _ := strings.Cut(fields[1][1:], ",")
			first, _ := strconv.Atoi(start)
			left, _ = strconv.Atoi(count)
			_, count, _ = strings.Cut(fields[2], ",")
			added, _ = strconv.Atoi(count)
			if left > 0 {
				first--
			}
			for ; at < first; at++ {
				out.WriteString(old[at])
			}
			continue
		}
		if l == "" || l[0] == '\\' {
			continue
		}
		text := l[1:]
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], `\ No newline`) {
			text = strings.TrimSuffix(text, "\n")
		}
		if l[0] != '+' {
			if at >= len(old) || old[at] != text {
				return "", fmt.Errorf("line %d is not %q", at+1, text)
			}
			at++
			left--
		}
		if l[0] != '-' {
			out.WriteString(text)
			added--
		}
	}
	if left != 0 || added != 0 {
		return "", fmt.Errorf("hunk counts are off by %d and %d", left, added)
	}
	return out.String() + strings.Join(old[at:], ""), nil
}
