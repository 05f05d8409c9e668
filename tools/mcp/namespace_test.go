package mcp_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/mcp"
)

// inDirs returns an entry whose process has a separate directory for each of these namespaces. Each directory contains a file with the name
// of the namespace.
func inDirs(t *testing.T, e mcp.Entry, namespaces ...string) mcp.Entry {
	t.Helper()
	dir := t.TempDir()
	in := func(namespace string) mcp.Entry {
		one := e
		one.Dir = filepath.Join(dir, namespace)
		must(t, errors.Join(os.Mkdir(one.Dir, 0o755), os.WriteFile(filepath.Join(one.Dir, "name"), []byte("of "+namespace), 0o644)))
		return one
	}
	shared := in("default")
	for _, namespace := range namespaces {
		if shared.In == nil {
			shared.In = map[string]mcp.Entry{}
		}
		shared.In[namespace] = in(namespace)
	}
	return shared
}

// as makes a call of a namespace and returns the text that a model reads.
func (w *world) as(namespace, id, args string) string {
	w.t.Helper()
	c, _ := newCall(w.t, args)
	c.Namespace = namespace
	r, err := w.do(id, c)
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return "error: " + e.Reason
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return r.ModelText()
}

// starts returns how many processes of a source were started.
func (w *world) starts(source string) (n int) {
	for _, s := range w.hub.Sources() {
		if s.Name == source {
			n += s.Starts
		}
	}
	return n
}

// The test checks that the separate process of a namespace starts with the first call of the namespace and serves only this namespace. Its
// own descriptions of the tools do not replace the descriptions that callers have seen.
func TestProcessOfANamespace(t *testing.T) {
	w := connect(t, newMemory(), nil, inDirs(t, own(t, "s", "good"), "a", "b")).ready()
	if n := len(w.hub.Sources()); n != 1 {
		t.Errorf("%d processes were started", n)
	}
	for _, namespace := range []string{"default", "a"} {
		if got := w.as(namespace, "s__peek", `{"path":"name"}`); got != "of "+namespace {
			t.Errorf("%s: %q", namespace, got)
		}
	}
	if w.starts("mcp:s@a") != 1 || w.starts("mcp:s@b") != 0 {
		t.Errorf("the sources are %+v", w.hub.Sources())
	}
	if got := w.as("a", "s__change", `{}`); got != "changed" {
		t.Fatalf("%q", got)
	}
	w.eventually("what a's process changed is refused", func() bool { return strings.Contains(w.as("a", "s__echo", `{"text":"x"}`), "DEFINITION_DIFFERS") })
	if got := w.as("a", "s__peek", `{"path":"name"}`); got != "of a" {
		t.Errorf("a tool that did not change: %q", got)
	}
	if got := w.as("default", "s__echo", `{"text":"x"}`); !strings.Contains(got, "x") {
		t.Errorf("the process of all others: %q", got)
	}
	if _, ok := w.tools.Lookup("s__grown"); ok {
		t.Error("a tool of one namespace's process is listed")
	}
}

// The test checks that a reload ends the processes of namespaces that are not in the new entry. A call of the old entry's tool runs on the
// process of the new entry.
func TestProcessOfANamespaceReload(t *testing.T) {
	w := connect(t, newMemory(), nil, inDirs(t, own(t, "s", "good"))).ready()
	old, ok := w.tools.Lookup("s__peek")
	if !ok {
		t.Fatal("there is no tool")
	}
	peeks := func(want string) {
		t.Helper()
		c, _ := newCall(t, `{"path":"name"}`)
		c.Namespace = "a"
		r, err := old.Tool.Execute(t.Context(), c)
		if err != nil || r.ModelText() != want {
			t.Errorf("%v, %v, want %q", r, err, want)
		}
	}
	peeks("of default")
	for _, step := range []struct {
		namespaces []string
		want       string
	}{{[]string{"a"}, "of a"}, {nil, "of default"}, {[]string{"a", "b"}, "of a"}} {
		_, err := w.hub.Reload([]mcp.Entry{inDirs(t, own(t, "s", "good"), step.namespaces...)})
		must(t, err)
		peeks(step.want)
	}
	if w.starts("mcp:s@b") != 0 || w.starts("mcp:s@a") != 1 {
		t.Errorf("the sources are %+v", w.hub.Sources())
	}
}
