package files_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/files"
)

// TestResourceIsTheResolvedPath checks the resource that a change of a file names, for every way to write its path. Two spellings of the
// same path must name overlapping resources, also when the file does not exist yet.
func TestResourceIsTheResolvedPath(t *testing.T) {
	b := newBench(t, files.Config{Root: "/ws"})
	b.put("a/f", "x")
	b.put(".git/config", "x")
	b.link("a", "dir")
	b.link("a/f", "file")
	b.link("../outside", "out")
	b.link("new/target", "dangling")
	long := strings.Repeat("n", 200)
	deep := strings.Join([]string{long, long, long, long, long, long}, "/")
	tests := []struct{ name, path, want string }{
		{"a file", "a/f", "a/f"},
		{"another spelling", "./a//x/../f", "a/f"},
		{"an absolute path", "/ws/a/f", "a/f"},
		{"a link to a file", "file", "a/f"},
		{"a link to a folder", "dir/f", "a/f"},
		{"a new file behind a link", "dir/new/g", "a/new/g"},
		{"a link to a file that does not exist", "dangling", "new/target"},
		{"a protected file", ".git/config", ".git/config"},
		{"a path that is longer than an id", deep, deep[:5*200+4]},
		{"a name that is not UTF-8", `"a/\xff"`, "a"},
		{"a name with a line break", "a/b\nc", "a"},
		{"outside the workspace", "../x", "none"},
		{"a link out of the workspace", "out/x", "none"},
		{"below a file", "a/f/x", "none"},
	}
	for _, id := range []string{"write", "edit", "multi_edit"} {
		mildest := b.tools[id].Descriptor().Mildest
		for _, tt := range tests {
			e := b.tools[id].(tool.Assessor).Assess(arguments(t, object{"path": tt.path}))
			if tt.want == "none" && len(e.Resources) == 0 {
				continue
			}
			if len(e.Resources) != 1 || e.Resources[0] != (tool.Resource{Kind: "file", ID: tt.want}) || e.MilderThan(*mildest) || tool.CheckResources(e.Resources) != nil {
				t.Errorf("%s of %s: %+v, want %q", id, tt.name, e.Resources, tt.want)
			}
		}
	}
}

// meeting is a workspace in which each Replace waits until two calls are in it. So it succeeds only when two calls change files at the same
// time.
type meeting struct {
	files.Workspace
	inside chan struct{}
}

func (m meeting) Replace(ctx context.Context, name string, content []byte, was string) error {
	select {
	case m.inside <- struct{}{}:
	case <-m.inside:
	case <-ctx.Done():
		return ctx.Err()
	}
	return m.Workspace.Replace(ctx, name, content, was)
}

// TestChangesOfDifferentFilesRunTogether checks that a change of one file does not wait for a change of another.
func TestChangesOfDifferentFilesRunTogether(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	b := benchAt(t, dir, files.Config{Workspace: meeting{&files.Local{Root: root}, make(chan struct{})}})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	results := make(chan error, 2)
	for _, name := range []string{"new/a", "new/b"} {
		call := b.call(object{"path": name, "content": name})
		call.Reporter = &artifacts{} // not shared, because the calls run together
		go func() {
			_, err := b.tools["write"].Execute(ctx, call)
			results <- err
		}()
	}
	for range 2 {
		must(t, <-results)
	}
	for _, name := range []string{"new/a", "new/b"} {
		if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != name {
			t.Errorf("%s has %q, %v", name, content, err)
		}
	}
}

// TestChangesOfOneFileRunOneAfterAnother checks that no change is lost when many calls change one file at the same time, also by different
// paths.
func TestChangesOfOneFileRunOneAfterAnother(t *testing.T) {
	b := newBench(t, files.Config{})
	b.put("f", "start")
	b.link("f", "other")
	type ended struct {
		r   *tool.Result
		err error
	}
	results := make(chan ended, 20)
	for i := range 20 {
		path := []string{"f", "other"}[i%2]
		call := b.call(object{"path": path, "old_text": "start", "new_text": "start+", "overwrite": true})
		call.Reporter = &artifacts{} // not shared, because the calls run together
		go func() {
			r, err := b.tools["edit"].Execute(t.Context(), call)
			results <- ended{r, err}
		}()
	}
	for range 20 {
		if e := <-results; e.err != nil || !e.r.IsSuccess() {
			t.Errorf("%+v, %v", e.r, e.err)
		}
	}
	if got, want := b.content("f"), "start"+strings.Repeat("+", 20); got != want {
		t.Errorf("the file has %q, want %q: a change is lost", got, want)
	}
}
