package files_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/files"
)

// stored contains the output of earlier calls of one thread, by handle.
type stored struct {
	thread string
	texts  map[string]string
}

func (s stored) OpenArtifact(_ context.Context, reader *tool.Call, id, name string) (io.ReaderAt, int64, error) {
	text, ok := s.texts[tool.ArtifactHandle(id, name)]
	if !ok || reader.Run.Thread != s.thread {
		return nil, 0, fmt.Errorf("%w: nothing here", fs.ErrNotExist)
	}
	return strings.NewReader(text), int64(len(text)), nil
}

func withArtifacts(t *testing.T, thread string) *bench {
	var long strings.Builder
	for i := 1; i <= 300_000; i++ {
		if i%100_000 == 7 {
			fmt.Fprintf(&long, "%d: error: it broke\n", i)
		} else {
			fmt.Fprintf(&long, "%d: all is well\n", i)
		}
	}
	return newBench(t, files.Config{Limits: files.Limits{FileSize: 1 << 10, ScanSize: 4 << 10}, Artifacts: stored{thread, map[string]string{
		"artifact://call-1/stdout": long.String(),
		"artifact://call-1/image":  "\x00\x01\x02",
		"artifact://call-1/nul":    strings.Repeat("text\n", 5000) + "\x00",
	}}})
}

// TestReadArtifact checks that a model can read and search output of any length that was cut from a result.
func TestReadArtifact(t *testing.T) {
	b := withArtifacts(t, "thread")
	r := b.ok("read", object{"path": "artifact://call-1/stdout", "offset": 250_000, "limit": 3})
	if !strings.HasPrefix(r.Message, "250000\t250000: all is well\n250001\t") || !strings.Contains(r.Message, "Use offset 250003 to continue.") {
		t.Errorf("a page: %q", r.Message)
	}
	r = b.ok("read", object{"path": "artifact://call-1/stdout", "offset": 299_999})
	if !strings.Contains(r.Message, "Lines 299999 to 300000 of 300000: the end") {
		t.Errorf("the end: %q", r.Message)
	}
	r = b.ok("read", object{"path": "artifact://call-1/stdout", "search": "error: \\w+"})
	if want := "     7\t7: error: it broke\n100007\t100007: error: it broke\n200007\t200007: error: it broke\n[3 matching lines.]"; r.Message != want {
		t.Errorf("a search: %q, want %q", r.Message, want)
	}
	r = b.ok("read", object{"path": "artifact://call-1/stdout", "search": "error", "offset": 8, "limit": 1})
	if want := "100007\t100007: error: it broke\n[1 of 2 matching lines. Use offset 100008 to see more, or a narrower search.]"; r.Message != want {
		t.Errorf("a page of a search: %q", r.Message)
	}
	r = b.ok("grep", object{"path": "artifact://call-1/stdout", "pattern": "^200007:", "context": 1})
	if !strings.Contains(r.Message, "artifact://call-1/stdout:200007:200007: error") || !strings.Contains(r.Message, "-200008-") {
		t.Errorf("grep: %q", r.Message)
	}
	b.put("a.txt", "one\ntwo\nthree\n")
	if r = b.ok("read", object{"path": "a.txt", "search": "^t"}); r.Message != "     2\ttwo\n     3\tthree\n[2 matching lines.]" {
		t.Errorf("a search in a file: %q", r.Message)
	}
	if len(r.Documents) != 0 {
		t.Error("a search counts as having read the file")
	}
}

func TestReadArtifactRefuses(t *testing.T) {
	b := withArtifacts(t, "thread")
	b.refused("read", "BEYOND_END", object{"path": "artifact://call-1/stdout", "offset": 300_001})
	b.refused("read", "NOT_FOUND", object{"path": "artifact://call-2/stdout"})
	b.refused("grep", "NOT_FOUND", object{"path": "artifact://call-2/stdout", "pattern": "x"})
	b.refused("read", "IS_BINARY", object{"path": "artifact://call-1/image"})
	b.refused("grep", "IS_BINARY", object{"path": "artifact://call-1/image", "pattern": "x"})
	b.refused("read", "IS_BINARY", object{"path": "artifact://call-1/nul", "offset": 5001})
	b.refused("read", "", object{"path": "artifact://call-1"})
	b.refused("read", "", object{"path": "artifact://call-1/stdout", "search": "("})
	b.refused("write", "OUTSIDE_WORKSPACE", object{"path": "/artifact://call-1/stdout", "content": "x"})
	other := withArtifacts(t, "another thread")
	other.refused("read", "NOT_FOUND", object{"path": "artifact://call-1/stdout"})
	none := newBench(t, files.Config{})
	none.refused("read", "NOT_FOUND", object{"path": "artifact://call-1/stdout"})
}
