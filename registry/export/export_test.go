package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/registry/export"
	"github.com/toold-dev/toold/sandbox"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/ask"
	"github.com/toold-dev/toold/tools/files"
	"github.com/toold-dev/toold/tools/search"
	"github.com/toold-dev/toold/tools/shell"
	"github.com/toold-dev/toold/tools/todo"
)

var update = flag.Bool("update", false, "write what is exported into the golden files")

// A line of a golden file is an exported tool with its notes, or an omitted tool.
type line struct {
	Name       string          `json:"name,omitempty"`
	ID         string          `json:"id"`
	Definition json.RawMessage `json:"definition,omitempty"`
	Notes      []string        `json:"notes,omitempty"`
	Nulls      []string        `json:"nulls,omitempty"`
	Guidance   string          `json:"guidance,omitempty"`
	Omitted    string          `json:"omitted,omitempty"`
}

func exported(t *testing.T, f export.Format, tools []*tool.Descriptor) (*export.List, []byte) {
	t.Helper()
	list, err := export.Export(f, tools)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, e := range list.Tools {
		if err := enc.Encode(line{Name: e.Name, ID: e.ID, Definition: e.Definition, Notes: e.Notes, Nulls: e.Nulls, Guidance: e.Guidance}); err != nil {
			t.Fatalf("%s: %v", e.ID, err)
		}
	}
	for _, o := range list.Omitted {
		if err := enc.Encode(line{ID: o.ID, Omitted: o.Reason}); err != nil {
			t.Fatal(err)
		}
	}
	return list, b.Bytes()
}

// builtin returns the tools of the daemon, as it registers them.
func builtin(t *testing.T) []*tool.Descriptor {
	t.Helper()
	commands, _, err := shell.New(shell.Config{Exec: nothing{}, Dir: "/workspace", Background: shell.Background{Exec: nothing{}}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	tools := files.New(files.Config{Workspace: &files.Local{Root: root}, Root: "/workspace"})
	r := registry.New(registry.Config{})
	if err := r.Register("builtin", append(append(tools, commands...), ask.New(), todo.Read(), todo.Write(), search.New(nil))...); err != nil {
		t.Fatal(err)
	}
	entries := r.View(registry.Offer{}).List()
	out := make([]*tool.Descriptor, len(entries))
	for i, e := range entries {
		out[i] = &e.Descriptor
	}
	return out
}

type nothing struct{}

func (nothing) Run(context.Context, sandbox.Spec) (*sandbox.Exit, error) {
	return nil, errors.New("nothing runs here")
}

// TestGolden compares every byte that goes to a provider with the golden files. scripts/providers.sh checks the same files with the
// providers' own packages.
func TestGolden(t *testing.T) {
	for name, tools := range map[string][]*tool.Descriptor{"hostile": hostile(), "builtin": builtin(t)} {
		for _, f := range export.Formats() {
			t.Run(name+"/"+string(f), func(t *testing.T) {
				list, got := exported(t, f, tools)
				file := filepath.Join("testdata", name, string(f)+".jsonl")
				if *update {
					if err := os.WriteFile(file, got, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("differs from %s; run with -update and read the diff", file)
				}
				checkOrder(t, f, tools, list)
			})
		}
	}
}

// checkOrder checks that equal lists have the same revision, and that another order has another revision. The definition of a tool must
// depend only on the tool.
func checkOrder(t *testing.T, f export.Format, tools []*tool.Descriptor, list *export.List) {
	t.Helper()
	again, _ := exported(t, f, tools)
	if again.Revision != list.Revision {
		t.Errorf("the same tools have the revisions %s and %s", list.Revision, again.Revision)
	}
	reversed := slices.Clone(tools)
	slices.Reverse(reversed)
	other, _ := exported(t, f, reversed)
	if other.Revision == list.Revision {
		t.Error("another order has the same revision")
	}
	for _, a := range list.Tools {
		for _, b := range other.Tools {
			if a.ID == b.ID && !bytes.Equal(a.Definition, b.Definition) {
				t.Errorf("%s is another tool at another position of the list", a.ID)
			}
		}
	}
}
