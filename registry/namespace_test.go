package registry_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
)

// ofNamespaces returns a registry in which the sources "a:…" and "b:…" belong to the namespaces a and b.
func ofNamespaces() *registry.Registry {
	return registry.New(registry.Config{NamespaceOf: func(source string) (string, bool) {
		namespace, _, own := strings.Cut(source, ":")
		return map[bool]string{true: namespace}[own], own
	}})
}

func sourceOf(r *registry.Registry, namespace, name string) string {
	e, ok := r.View(registry.Offer{Namespace: namespace}).Lookup(name)
	if !ok {
		return ""
	}
	return e.Source
}

// T125: two tools with the same name in two namespaces do not conflict.
func TestT125NamesOfNamespacesDoNotMeet(t *testing.T) {
	r := ofNamespaces()
	register(t, r, "builtin", named("read")...)
	register(t, r, "b:pool", named("deploy")...)
	register(t, r, "a:pool", named("deploy", "DEPLOY_all")...)
	for namespace, want := range map[string]string{"a": "DEPLOY_all deploy read", "b": "deploy read", "c": "read", "": "read"} {
		if got := strings.Join(list(r, registry.Offer{Namespace: namespace}), " "); got != want {
			t.Errorf("namespace %q lists %q, want %q", namespace, got, want)
		}
	}
	if a, b, c := sourceOf(r, "a", "deploy"), sourceOf(r, "b", "deploy"), sourceOf(r, "c", "deploy"); a != "a:pool" || b != "b:pool" || c != "" {
		t.Errorf("deploy is of %q in a, of %q in b, of %q in c", a, b, c)
	}
	if err := r.Register("a:other", named("deploy")...); !errors.As(err, new(*registry.DuplicateError)) {
		t.Errorf("twice in a namespace: %v", err)
	}
}

// T125: a worker of one namespace cannot block a name for a tool of the operator. The worker's tool loses the name, and gets the name back
// when it is free.
func TestT125SharedToolsTakeSquattedNames(t *testing.T) {
	r := ofNamespaces()
	register(t, r, "b:pool", named("deploy", "other")...)
	w := follow(r, registry.Offer{Namespace: "b"})
	register(t, r, "command", makeTool(tool.Descriptor{ID: "ship", Aliases: []string{"Deploy"}}))
	if got := sourceOf(r, "b", "Deploy"); got != "command" {
		t.Errorf("Deploy is of %q", got)
	}
	if got := sourceOf(r, "b", "deploy"); got != "" || !r.Shadowed("b:pool", "deploy") || r.Shadowed("b:pool", "other") {
		t.Errorf("deploy is of %q", got)
	}
	if c, err := w.Next(t.Context()); err != nil || !slices.Equal(c.Removed, []string{"deploy"}) || !slices.Equal(c.Added, []string{"ship"}) {
		t.Errorf("the watcher receives %+v, %v", c, err)
	}
	if err := r.Register("a:pool", named("deploy")...); !errors.As(err, new(*registry.DuplicateError)) {
		t.Errorf("a new tool took the name of a shared one: %v", err)
	}
	if err := r.Replace("b:pool", named("deploy", "another")...); err != nil || sourceOf(r, "b", "another") != "b:pool" {
		t.Errorf("the other tools of the source: %v", err)
	}
	if err := r.Replace("command"); err != nil {
		t.Fatal(err)
	}
	if got := sourceOf(r, "b", "deploy"); got != "b:pool" {
		t.Errorf("when the name is free again, deploy is of %q", got)
	}
}

// T125: a name that differs from a taken name only in case counts as taken, because people and models confuse Bash and bash.
func TestT125NamesThatDifferInCaseAlone(t *testing.T) {
	r := ofNamespaces()
	register(t, r, "builtin", makeTool(tool.Descriptor{ID: "bash", Aliases: []string{"Shell"}}))
	register(t, r, "a:pool", named("deploy")...)
	for source, name := range map[string]string{"mcp": "Bash", "a:x": "BASH", "b:x": "shell", "a:y": "Deploy"} {
		err := r.Register(source, named(name)...)
		if d, ok := errors.AsType[*registry.DuplicateError](err); !ok || !d.Case || d.Name != name || !strings.Contains(err.Error(), "case") {
			t.Errorf("%s of %s: %v", name, source, err)
		}
	}
	register(t, r, "b:y", named("Deploy")...) // a source of another namespace
}
