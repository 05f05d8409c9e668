package files_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/files"
)

type readResult struct {
	Path, Content, SHA256 string
	FirstLine             int `json:"first_line"`
	Lines                 int
	TotalLines            int    `json:"total_lines"`
	CutLines              int    `json:"cut_lines"`
	Endings               string `json:"line_endings"`
	Lossy, Truncated      bool
}

func numbered(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestRead(t *testing.T) {
	long := strings.Repeat("é", 3000)
	tests := []struct {
		name, content string
		args          object
		want          readResult // expected data, without the hash
		message       string     // expected part of the message
	}{
		{"whole", "a\nb\n", nil, readResult{Content: "a\nb\n", FirstLine: 1, Lines: 2, TotalLines: 2, Endings: "lf"}, "     1\ta\n     2\tb"},
		{"no newline at the end", "a\nb", nil, readResult{Content: "a\nb\n", FirstLine: 1, Lines: 2, TotalLines: 2, Endings: "lf"}, "     2\tb"},
		{"empty", "", nil, readResult{FirstLine: 1}, "is empty"},
		{"blank lines", "\n\n", nil, readResult{Content: "\n\n", FirstLine: 1, Lines: 2, TotalLines: 2, Endings: "lf"}, "     2\t"},
		{"CRLF", "a\r\nb\r\n", nil, readResult{Content: "a\nb\n", FirstLine: 1, Lines: 2, TotalLines: 2, Endings: "crlf"}, "     1\ta\n"},
		{"mixed", "a\r\nb\n", nil, readResult{Content: "a\nb\n", FirstLine: 1, Lines: 2, TotalLines: 2, Endings: "mixed"}, "mixes CRLF and LF"},
		{"byte order mark", "\ufeffa\n", nil, readResult{Content: "a\n", FirstLine: 1, Lines: 1, TotalLines: 1, Endings: "lf"}, "     1\ta"},
		{"not UTF-8", "caf\xe9\n", nil, readResult{Content: "caf\ufffd\n", FirstLine: 1, Lines: 1, TotalLines: 1, Endings: "lf", Lossy: true}, "not UTF-8"},
		{"window", numbered(1, 50), object{"offset": 10, "limit": 3}, readResult{Content: numbered(10, 12), FirstLine: 10, Lines: 3, TotalLines: 50, Endings: "lf", Truncated: true}, "[Lines 10 to 12 of 50. Use offset 13 to continue.]"},
		{"last window", numbered(1, 50), object{"offset": 49}, readResult{Content: numbered(49, 50), FirstLine: 49, Lines: 2, TotalLines: 50, Endings: "lf", Truncated: true}, "[Lines 49 to 50 of 50: the end of the file.]"},
		{"2,000 lines by default", numbered(1, 2500), nil, readResult{Content: numbered(1, 2000), FirstLine: 1, Lines: 2000, TotalLines: 2500, Endings: "lf", Truncated: true}, "Use offset 2001"},
		{"exactly 2,000 lines", numbered(1, 2000), nil, readResult{Content: numbered(1, 2000), FirstLine: 1, Lines: 2000, TotalLines: 2000, Endings: "lf"}, "  2000\tline 2000"},
		{"long line", long + "\nb\n", nil, readResult{Content: long[:4000] + "\nb\n", FirstLine: 1, Lines: 2, TotalLines: 2, CutLines: 1, Endings: "lf"}, "[line cut: 6001 bytes]\n     2\tb"},
		{"very long line", strings.Repeat("x", 200_000) + "\r\nb\r\n", nil, readResult{Content: strings.Repeat("x", 2000) + "\nb\n", FirstLine: 1, Lines: 2, TotalLines: 2, CutLines: 1, Endings: "crlf"}, "[line cut: 200002 bytes]\n     2\tb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, files.Config{})
			b.put("f", tt.content)
			args := object{"path": "f"}
			for k, v := range tt.args {
				args[k] = v
			}
			r := b.ok("read", args)
			got := data[readResult](t, r)
			if len(got.SHA256) != 64 {
				t.Errorf("hash %q", got.SHA256)
			}
			got.SHA256 = ""
			tt.want.Path = "f"
			if got != tt.want {
				t.Errorf("data\n got %.300q\nwant %.300q", fmt.Sprint(got), fmt.Sprint(tt.want))
			}
			if !strings.Contains(r.Message, tt.message) {
				t.Errorf("message %.300q lacks %q", r.Message, tt.message)
			}
		})
	}
}

func TestReadShowsBigTextPartByPart(t *testing.T) {
	b := newBench(t, files.Config{})
	line := strings.Repeat("<&>\t\"", 300) + "\n" // characters that become longer in JSON
	b.put("f", strings.Repeat(line, 500))
	offset, parts := 1, 0
	for offset <= 500 {
		got := data[readResult](t, b.ok("read", object{"path": "f", "offset": offset, "limit": 5000}))
		if got.Lines == 0 || got.Content != strings.Repeat(line, got.Lines) || got.TotalLines != 500 {
			t.Fatalf("part from %d: %d lines of %d", offset, got.Lines, got.TotalLines)
		}
		offset += got.Lines
		parts++
	}
	if parts < 3 || offset != 501 {
		t.Errorf("%d parts up to line %d", parts, offset-1)
	}
}

func TestReadRefusals(t *testing.T) {
	b := newBench(t, files.Config{Limits: files.Limits{MediaSize: 1 << 10}})
	b.put("binary", "ELF\x00\x01")
	b.put("late", strings.Repeat("text\n", 3000)+"\x00\n")
	b.put("text", "one\n")
	b.put("folder/f", "")
	b.put("big.png", "\x89PNG\r\n\x1a\n"+strings.Repeat("x", 2000))
	tests := []struct {
		reason string
		args   object
	}{
		{"IS_BINARY", object{"path": "binary"}},
		{"IS_BINARY", object{"path": "late", "offset": 2990}},
		{"NOT_FOUND", object{"path": "missing"}},
		{"NOT_FOUND", object{"path": strings.Repeat("n", 300)}},
		{"NOT_DIRECTORY", object{"path": "text/below"}},
		{"BEYOND_END", object{"path": "text", "offset": 2}},
		{"BEYOND_END", object{"path": "folder", "offset": 2}},
		{"TOO_LARGE", object{"path": "big.png"}},
	}
	for _, tt := range tests {
		b.refused("read", tt.reason, tt.args)
	}
	if r := b.ok("read", object{"path": "late"}); !strings.Contains(r.Message, "text") {
		t.Errorf("text before a late NUL: %s", r.Message)
	}
	for _, args := range []object{{"path": "text", "offset": 0}, {"path": "text", "limit": 0}, {"path": "text", "limit": 5001}} {
		if r := b.run("read", args); !r.IsError() || r.Error.Code != tool.InvalidArguments {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestReadListsDirectories(t *testing.T) {
	b := newBench(t, files.Config{})
	for _, name := range []string{"b.txt", "a/x", ".hidden", ".toold-AAAA.tmp"} {
		b.put(name, "")
	}
	b.link("b.txt", "z")
	r := b.ok("read", object{"path": "."})
	if want := "Directory . (/ directory, @ symbolic link, ? other):\n.hidden\na/\nb.txt\nz@\n"; r.Message != want {
		t.Errorf("got %q, want %q", r.Message, want)
	}
	r = b.ok("read", object{"path": ".", "offset": 2, "limit": 2})
	if !strings.Contains(r.Message, "a/\nb.txt\n[Entries 2 to 3 of 4. Use offset 4 to continue.]") {
		t.Errorf("part of a directory: %q", r.Message)
	}
	if err := os.Mkdir(filepath.Join(b.dir, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := b.ok("read", object{"path": "empty"}); r.Message != "empty is an empty directory." {
		t.Errorf("empty directory: %q", r.Message)
	}
	if len(b.docs) != 0 {
		t.Errorf("listing was recorded: %v", b.docs)
	}
}

func TestReadGivesImagesAndPDFsAsContent(t *testing.T) {
	tests := []struct {
		name, head, mime string
		kind             tool.ContentType
	}{
		{"a.png", "\x89PNG\r\n\x1a\n", "image/png", tool.ContentImage},
		{"wrong.txt", "\xff\xd8\xff\xe0", "image/jpeg", tool.ContentImage}, // The type depends on the bytes, not on the name.
		{"a.gif", "GIF89a", "image/gif", tool.ContentImage},
		{"a.webp", "RIFF\x00\x00\x00\x00WEBPVP", "image/webp", tool.ContentImage},
		{"a.pdf", "%PDF-1.7\n", "application/pdf", tool.ContentDocument},
	}
	for _, tt := range tests {
		for _, size := range []int{100, 64 << 10, 64<<10 + 1, 1 << 20} {
			b := newBench(t, files.Config{})
			content := tt.head + strings.Repeat("\x00", size-len(tt.head))
			b.put(tt.name, content)
			r := b.ok("read", object{"path": tt.name})
			if len(r.Content) != 1 || r.Content[0].Type != tt.kind || r.Content[0].MIMEType != tt.mime || r.Content[0].Name != tt.name {
				t.Fatalf("%s: content %+v", tt.name, r.Content)
			}
			got := r.Content[0].Data
			if size > 64<<10 {
				if got != nil || len(r.Artifacts) != 1 || r.Content[0].Artifact != r.Artifacts[0].Name {
					t.Errorf("%s of %d bytes: inline, or artifacts %v", tt.name, size, r.Artifacts)
				}
				got = b.kept.saved[r.Content[0].Artifact]
			}
			if !bytes.Equal(got, []byte(content)) {
				t.Errorf("%s of %d bytes: got %d bytes", tt.name, size, len(got))
			}
		}
	}
}

// The test checks that reading a short file allocates no new buffers, which would be most of the work.
func TestReadOfALineAllocatesLittle(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("line.txt", "one line\n")
	const reads = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range reads {
		b.ok("read", object{"path": "line.txt"})
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / reads; each > 96<<10 { // The limit is high because sync.Pool drops some buffers when the race detector is enabled.
		t.Errorf("%d bytes for each read", each)
	}
}
