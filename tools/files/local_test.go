package files_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/toold-dev/toold/tools/files"
)

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

func newLocal(t *testing.T) (*files.Local, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return &files.Local{Root: root}, dir
}

func TestReplaceOnlyWhatIsExpected(t *testing.T) {
	tests := []struct {
		name, before string // before is the content of the existing file; empty means that there is no file
		was          string
		want         error
	}{
		{"expected", "old", sum("old"), nil},
		{"another", "other", sum("old"), files.ErrChanged},
		{"gone", "", sum("old"), files.ErrChanged},
		{"new", "", "", nil},
		{"not new", "old", "", files.ErrChanged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, dir := newLocal(t)
			if tt.before != "" {
				if err := os.WriteFile(filepath.Join(dir, "f"), []byte(tt.before), 0o640); err != nil {
					t.Fatal(err)
				}
			}
			err := l.Replace(t.Context(), "f", []byte("new"), tt.was)
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			want := tt.before
			if tt.want == nil {
				want = "new"
			}
			if got, err := os.ReadFile(filepath.Join(dir, "f")); string(got) != want || err != nil && want != "" {
				t.Errorf("file %q, %v", got, err)
			}
			if left, err := filepath.Glob(filepath.Join(dir, ".toold-*")); err != nil || left != nil {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// meddler is a context that invokes do once, as soon as a temporary file exists beside the file that is replaced. So a test can change the
// file at this moment.
type meddler struct {
	context.Context
	dir string
	do  func()
}

func (m *meddler) Err() error {
	if ready, _ := filepath.Glob(filepath.Join(m.dir, ".toold-*")); ready != nil && m.do != nil {
		m.do()
		m.do = nil
	}
	return m.Context.Err()
}

func TestReplaceSeesWhatHappensMeanwhile(t *testing.T) {
	l, dir := newLocal(t)
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	somebody := &meddler{t.Context(), dir, func() {
		if err := os.WriteFile(path, []byte("somebody else's"), 0o644); err != nil {
			t.Error(err)
		}
	}}
	if err := l.Replace(somebody, "f", []byte("new"), sum("old")); !errors.Is(err, files.ErrChanged) {
		t.Errorf("changed by somebody: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Replace(&meddler{ctx, dir, cancel}, "f", []byte("new"), sum("somebody else's")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the rename: %v", err)
	}
	if got, err := os.ReadFile(path); string(got) != "somebody else's" {
		t.Errorf("file %q, %v", got, err)
	}
	if left, err := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestResolve(t *testing.T) {
	l, dir := newLocal(t)
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"up": "..", "a/b/top": "../..", "a/b/out": "../../..", "ab": "a/b", "chain": "ab/../b", "loop": "pool", "pool": "loop", "new": "a/missing/x", "badnew": "a/missing/../../../x", "abs": dir,
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, want string
		err        error
	}{
		{".", ".", nil},
		{"f", "f", nil},
		{"a/b", "a/b", nil},
		{"a/x/y", "a/x/y", nil},
		{"ab/f", "a/b/f", nil},
		{"chain", "a/b", nil},
		{"ab/top/f", "f", nil},
		{"ab/top/ab/top/f", "f", nil},
		{"new", "a/missing/x", nil},
		{"up", "", files.ErrOutside},
		{"ab/out", "", files.ErrOutside},
		{"badnew", "", files.ErrOutside},
		{"abs/f", "", files.ErrOutside},
		{"loop/f", "", files.ErrLoop},
		{"f/x", "", files.ErrNotDirectory},
	}
	for _, tt := range tests {
		got, err := l.Resolve(t.Context(), tt.name)
		if got != tt.want || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("Resolve(%q) = %q, %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

func TestOpenTellsPlainErrors(t *testing.T) {
	l, dir := newLocal(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"missing": fs.ErrNotExist, "out": files.ErrOutside, "..": files.ErrOutside} {
		if f, err := l.Open(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("Open(%q) = %v, %v; want %v", name, f, err, want)
		}
	}
}
