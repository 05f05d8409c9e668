package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
)

func makeTool(d tool.Descriptor) tool.Tool {
	return tool.Func(d, func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil })
}

func named(ids ...string) []tool.Tool {
	tools := make([]tool.Tool, len(ids))
	for i, id := range ids {
		tools[i] = makeTool(tool.Descriptor{ID: id})
	}
	return tools
}

func register(t *testing.T, r *registry.Registry, source string, tools ...tool.Tool) {
	t.Helper()
	if err := r.Register(source, tools...); err != nil {
		t.Fatalf("Register(%q) = %v", source, err)
	}
}

func ids(entries []*registry.Entry) []string {
	got := make([]string, len(entries))
	for i, e := range entries {
		got[i] = e.Descriptor.ID
	}
	return got
}

func list(r *registry.Registry, o registry.Offer) []string {
	return ids(r.View(o).List())
}

func TestRegisterNormalises(t *testing.T) {
	r := registry.New(registry.Config{})
	register(t, r, "builtin", makeTool(tool.Descriptor{
		ID: "read", Aliases: []string{"cat"}, Source: "made up",
		Effects: tool.Effects{Mutability: tool.ReadOnly}, Mildest: &tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe},
	}))
	e, ok := r.Lookup("read")
	if !ok {
		t.Fatal("read is not there")
	}
	if byAlias, ok := r.Lookup("cat"); !ok || byAlias != e {
		t.Error("the alias finds another entry")
	}
	want := tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyReadOnly, Tier: tool.Confirm}
	if !reflect.DeepEqual(e.Descriptor.Effects, want) || e.Descriptor.Mildest.Safety != tool.SafetyReadOnly {
		t.Errorf("effects = %+v, mildest %+v, want the defaults written out", e.Descriptor.Effects, *e.Descriptor.Mildest)
	}
	if e.Descriptor.Source != "builtin" || e.Source != "builtin" {
		t.Errorf("source = %q, want the one that registered", e.Descriptor.Source)
	}
	if digest, err := e.Descriptor.Digest(); err != nil || digest != e.Digest {
		t.Errorf("digest = %s, want that of the descriptor, %s (%v)", e.Digest, digest, err)
	}
	if _, ok := r.Lookup("Read"); ok {
		t.Error("ids are compared without case")
	}
}

func TestRegisterRefuses(t *testing.T) {
	schema := func(s string) json.RawMessage { return json.RawMessage(s) }
	tests := []struct {
		name   string
		d      tool.Descriptor
		reason string
	}{
		{"empty id", tool.Descriptor{}, "want 1 to 64"},
		{"id with a dot", tool.Descriptor{ID: "fs.read"}, "want 1 to 64"},
		{"id with a Cyrillic letter", tool.Descriptor{ID: "r\u0435ad"}, "want 1 to 64"},
		{"id with a space", tool.Descriptor{ID: "read "}, "want 1 to 64"},
		{"alias", tool.Descriptor{ID: "a", Aliases: []string{"b c"}}, "alias"},
		{"alias that is the id", tool.Descriptor{ID: "a", Aliases: []string{"a"}}, "twice"},
		{"alias twice", tool.Descriptor{ID: "a", Aliases: []string{"b", "b"}}, "twice"},
		{"mutability", tool.Descriptor{ID: "a", Effects: tool.Effects{Mutability: "read"}}, "effects.mutability"},
		{"tier", tool.Descriptor{ID: "a", Effects: tool.Effects{Tier: "LOW"}}, "effects.tier"},
		{"read-only that destroys", tool.Descriptor{ID: "a", Effects: tool.Effects{Mutability: tool.ReadOnly, Safety: tool.SafetyDestructive}}, "cannot be combined with"},
		{"mildest stricter", tool.Descriptor{ID: "a", Effects: tool.Effects{Tier: tool.Observe}, Mildest: &tool.Effects{Tier: tool.Confirm}}, "mildest is stricter"},
		{"mildest unknown", tool.Descriptor{ID: "a", Mildest: &tool.Effects{Safety: "NONE"}}, "mildest.safety"},
		{"on_doubt", tool.Descriptor{ID: "a", OnDoubt: "retry"}, "on_doubt"},
		{"isolation", tool.Descriptor{ID: "a", RequiredIsolation: "some"}, "required_isolation"},
		{"network", tool.Descriptor{ID: "a", RequiredNetwork: "lan"}, "required_network"},
		{"max_arguments", tool.Descriptor{ID: "a", MaxArguments: 2 << 20}, "max_arguments"},
		{"output_budget", tool.Descriptor{ID: "a", OutputBudget: -1}, "output_budget"},
		{"timeout", tool.Descriptor{ID: "a", Timeouts: tool.Timeouts{Attempt: -time.Second}}, "timeouts.attempt"},
		{"name with a bidirectional override", tool.Descriptor{ID: "a", DisplayName: "a\u202eb"}, "display_name"},
		{"description", tool.Descriptor{ID: "a", Description: strings.Repeat("x", 20<<10)}, "description"},
		{"parameters", tool.Descriptor{ID: "a", Parameters: schema(`{"type":"object",}`)}, "parameters: schema"},
		{"parameters that no object meets", tool.Descriptor{ID: "a", Parameters: schema(`{"type":"string"}`)}, "arguments have names"},
		{"parameters as a boolean", tool.Descriptor{ID: "a", Parameters: schema(`true`)}, "arguments have names"},
		{"result schema", tool.Descriptor{ID: "a", ResultSchema: schema(`{"$ref":"http://x.invalid/"}`)}, "result_schema: schema at #/$ref"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := registry.New(registry.Config{})
			err := r.Register("src", makeTool(tool.Descriptor{ID: "fine"}), makeTool(tt.d))
			if err == nil || !strings.Contains(err.Error(), tt.reason) || !strings.Contains(err.Error(), `source "src"`) {
				t.Errorf("Register = %v, want the source and %q", err, tt.reason)
			}
			if got := list(r, registry.Offer{}); len(got) != 0 {
				t.Errorf("%v was registered beside a refused tool", got)
			}
		})
	}
	r := registry.New(registry.Config{})
	if err := r.Register("", named("a")...); err == nil {
		t.Error("a source without a name was accepted")
	}
	if err := r.Register("src", nil, nil); err == nil {
		t.Error("a nil tool was accepted")
	}
}

func TestNothingShadows(t *testing.T) {
	alias := makeTool(tool.Descriptor{ID: "view", Aliases: []string{"read"}})
	tests := []struct {
		name   string
		second []tool.Tool
		want   registry.DuplicateError
	}{
		{"same id", named("other", "read"), registry.DuplicateError{Name: "read", Sources: [2]string{"one", "two"}}},
		{"alias over id", []tool.Tool{alias}, registry.DuplicateError{Name: "read", Sources: [2]string{"one", "two"}}},
		{"id over alias", named("cat"), registry.DuplicateError{Name: "cat", Sources: [2]string{"one", "two"}}},
		{"twice in one source", named("x", "x"), registry.DuplicateError{Name: "x", Sources: [2]string{"two", "two"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := registry.New(registry.Config{})
			register(t, r, "one", makeTool(tool.Descriptor{ID: "read", Aliases: []string{"cat"}}))
			err := r.Register("two", tt.second...)
			var duplicate *registry.DuplicateError
			if !errors.As(err, &duplicate) || duplicate.Name != tt.want.Name || !sameSources(duplicate.Sources, tt.want.Sources) {
				t.Fatalf("Register = %v, want %v", err, &tt.want)
			}
			for _, source := range tt.want.Sources {
				if !strings.Contains(err.Error(), source) {
					t.Errorf("%v does not name source %s", err, source)
				}
			}
			if !slices.Equal(list(r, registry.Offer{}), []string{"read"}) {
				t.Error("a refused source left something behind")
			}
		})
	}
}

func sameSources(a, b [2]string) bool { return a == b || a == [2]string{b[1], b[0]} }

func TestReplace(t *testing.T) {
	r := registry.New(registry.Config{})
	register(t, r, "one", named("a", "b")...)
	register(t, r, "two", named("c")...)
	held, _ := r.Lookup("a")
	if err := r.Replace("one", named("b", "c")...); err == nil {
		t.Fatal("replaced over another source's tool")
	}
	if got := list(r, registry.Offer{}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("after a refused Replace: %v", got)
	}
	if err := r.Replace("one", named("b", "d")...); err != nil {
		t.Fatal(err)
	}
	if got := list(r, registry.Offer{}); !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("after Replace: %v", got)
	}
	if got := r.Sources(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("sources = %v", got)
	}
	for _, source := range []string{"one", "nobody"} {
		if err := r.Replace(source); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(r, registry.Offer{}); !slices.Equal(got, []string{"c"}) {
		t.Errorf("after Replace by nothing: %v", got)
	}
	if held.Descriptor.ID != "a" || held.ValidateArguments(tool.NewArguments("{}", nil)) != nil {
		t.Error("an entry that is held changed")
	}
}

func TestView(t *testing.T) {
	r := registry.New(registry.Config{})
	register(t, r, "files", makeTool(tool.Descriptor{ID: "read", Aliases: []string{"cat"}, Category: "files", Effects: tool.Effects{Mutability: tool.ReadOnly}}),
		makeTool(tool.Descriptor{ID: "write", Category: "files", Description: "Writes a FILE."}))
	register(t, r, "shell", makeTool(tool.Descriptor{ID: "bash", DisplayName: "Shell"}))
	hide := func(id string) func(*tool.Descriptor) bool {
		return func(d *tool.Descriptor) bool { return d.ID == id }
	}
	tests := []struct {
		name  string
		offer registry.Offer
		want  []string
	}{
		{"all, sorted", registry.Offer{}, []string{"bash", "read", "write"}},
		{"allow", registry.Offer{Allow: []string{"r*", "b?sh"}}, []string{"bash", "read"}},
		{"exclude wins", registry.Offer{Allow: []string{"*"}, Exclude: []string{"bash"}}, []string{"read", "write"}},
		{"exclude by an alias", registry.Offer{Exclude: []string{"cat"}}, []string{"bash", "write"}},
		{"an alias does not allow", registry.Offer{Allow: []string{"cat"}}, nil},
		{"malformed allow", registry.Offer{Allow: []string{"["}}, nil},
		{"malformed exclude offers nothing", registry.Offer{Exclude: []string{"["}}, nil},
		{"hidden", registry.Offer{Hidden: hide("bash")}, []string{"read", "write"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := r.View(tt.offer)
			entries := v.List()
			if d := cmp.Diff(tt.want, ids(entries), cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); d != "" {
				t.Errorf("list (-want +got):\n%s", d)
			}
			for _, name := range []string{"bash", "read", "cat", "write"} {
				e, ok := v.Lookup(name)
				if ok != slices.ContainsFunc(entries, func(l *registry.Entry) bool { return l == e }) {
					t.Errorf("Lookup(%q) = %t, but the list says otherwise", name, ok)
				}
			}
		})
	}
}

// T115: in a view, a hidden tool, a tool outside the offered set and a tool that does not exist give the same result.
func TestHiddenIsUnknown(t *testing.T) {
	r := registry.New(registry.Config{})
	register(t, r, "src", makeTool(tool.Descriptor{ID: "secret", Aliases: []string{"hush"}}), makeTool(tool.Descriptor{ID: "other"}))
	v := r.View(registry.Offer{Exclude: []string{"other"}, Hidden: func(d *tool.Descriptor) bool { return d.ID == "secret" }})
	for _, name := range []string{"secret", "hush", "other", "nothing"} {
		if e, ok := v.Lookup(name); ok || e != nil {
			t.Errorf("Lookup(%q) = %v, %t", name, e, ok)
		}
	}
	if entries := v.List(); len(entries) != 0 {
		t.Errorf("list = %v", ids(entries))
	}
}

// A change lists the differences between two states of a view, as sorted ids.
type change struct{ Added, Removed, Changed []string }

// A follower compares the tools of an offer before and after each change.
type follower struct {
	*registry.Watcher
	look func() map[string]string // returns a map from id to digest
	seen map[string]string
}

func follow(r *registry.Registry, o registry.Offer) *follower {
	look := func() map[string]string {
		digests := map[string]string{}
		for _, e := range r.View(o).List() {
			digests[e.Descriptor.ID] = e.Digest
		}
		return digests
	}
	return &follower{r.Watch(o), look, look()}
}

func (f *follower) Next(ctx context.Context) (c change, err error) {
	if err := f.Watcher.Next(ctx); err != nil {
		return c, err
	}
	now := f.look()
	for _, id := range slices.Sorted(maps.Keys(now)) {
		if digest, was := f.seen[id]; !was {
			c.Added = append(c.Added, id)
		} else if digest != now[id] {
			c.Changed = append(c.Changed, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(f.seen)) {
		if _, is := now[id]; !is {
			c.Removed = append(c.Removed, id)
		}
	}
	f.seen = now
	return c, nil
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := registry.New(registry.Config{})
		register(t, r, "src", named("a", "b")...)
		var hidden sync.Map
		hidden.Store("secret", true)
		w := follow(r, registry.Offer{Hidden: func(d *tool.Descriptor) bool { _, ok := hidden.Load(d.ID); return ok }})

		changes := make(chan change)
		go func() {
			defer close(changes)
			for {
				c, err := w.Next(ctx)
				if err != nil {
					return
				}
				changes <- c
			}
		}()
		expect := func(want change) {
			t.Helper()
			if d := cmp.Diff(want, <-changes); d != "" {
				t.Errorf("change (-want +got):\n%s", d)
			}
		}
		quiet := func(what string) {
			t.Helper()
			synctest.Wait()
			select {
			case c := <-changes:
				t.Errorf("%s: received %+v", what, c)
			default:
			}
		}
		quiet("at the start")
		register(t, r, "more", named("c")...)
		expect(change{Added: []string{"c"}})
		register(t, r, "quiet", named("secret")...)
		quiet("a hidden tool came")
		if err := r.Replace("src", named("a", "b")...); err != nil {
			t.Fatal(err)
		}
		quiet("replaced by the same")
		if err := r.Replace("src", makeTool(tool.Descriptor{ID: "a", Description: "new"}), named("d")[0]); err != nil {
			t.Fatal(err)
		}
		expect(change{Added: []string{"d"}, Removed: []string{"b"}, Changed: []string{"a"}})
		hidden.Clear()
		r.Refresh() // The daemon calls Refresh after its rules have changed.
		expect(change{Added: []string{"secret"}})
		cancel()
		if _, open := <-changes; open {
			t.Error("a change after the end")
		}
	})
}

// A slow watcher gets all changes as one change. The registry stores nothing for it.
func TestSlowWatcherGetsOneChange(t *testing.T) {
	r := registry.New(registry.Config{})
	register(t, r, "src", named("a", "b")...)
	w := follow(r, registry.Offer{})
	for i := range 100 {
		if err := r.Replace("src", named("b", fmt.Sprintf("t%d", i))...); err != nil {
			t.Fatal(err)
		}
	}
	c, err := w.Next(t.Context())
	want := change{Added: []string{"t99"}, Removed: []string{"a"}}
	if d := cmp.Diff(want, c); err != nil || d != "" {
		t.Errorf("Next = %v:\n%s", err, d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next = %+v, %v, want that there is nothing more", c, err)
	}
}

func TestValidateArguments(t *testing.T) {
	r := registry.New(registry.Config{})
	register(t, r, "src", makeTool(tool.Descriptor{ID: "none"}), makeTool(tool.Descriptor{
		ID: "copy", Parameters: json.RawMessage(`{"type":"object","properties":{"from":{"type":"string"},"n":{"type":"integer","default":1}},"required":["from"],"additionalProperties":false}`),
	}))
	tests := []struct{ tool, arguments, want string }{
		{"none", ``, ""},
		{"none", `null`, ""},
		{"none", `{}`, ""},
		{"none", `{"x":1}`, "The arguments do not fit the parameters of none:\n- x: is not known here; there are no members"},
		{"copy", `{"from":"a","n":1e400}`, ""},
		{"copy", `{}`, "The arguments do not fit the parameters of copy:\n- from: is required (a string)"},
		{"copy", `{"From":"a","from":2}`, "The arguments do not fit the parameters of copy:\n- From: is not known here; known are from, n\n- from: is 2; want a string"},
	}
	for _, tt := range tests {
		args, err := call.Parse(tt.arguments).Arguments(0)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := r.Lookup(tt.tool)
		err = e.ValidateArguments(args)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s %s: %v", tt.tool, tt.arguments, err)
			}
			continue
		}
		var refused *tool.Error
		if !errors.As(err, &refused) || refused.Code != tool.InvalidArguments || !refused.Aborted {
			t.Errorf("%s %s: %#v, want INVALID_ARGUMENTS", tt.tool, tt.arguments, err)
			continue
		}
		if got := (&tool.Result{Status: tool.StatusError, Error: refused}).ModelText(); got != tt.want {
			t.Errorf("the model reads %q, want %q", got, tt.want)
		}
	}
}

func TestValidateResult(t *testing.T) {
	r := registry.New(registry.Config{})
	register(t, r, "src", makeTool(tool.Descriptor{ID: "free"}), makeTool(tool.Descriptor{
		ID: "strict", ResultSchema: json.RawMessage(`{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}`),
	}))
	tests := []struct {
		tool, data string
		ok         bool
	}{
		{"free", "", true},
		{"free", "not JSON", true}, // The tool has no result schema.
		{"strict", `{"n":1}`, true},
		{"strict", `{"n":"1"}`, false},
		{"strict", ``, false},
		{"strict", `{"n":1,"n":2}`, false},
		{"strict", `{"n":`, false},
	}
	for _, tt := range tests {
		e, _ := r.Lookup(tt.tool)
		err := e.ValidateResult(tt.data)
		if (err == nil) != tt.ok {
			t.Errorf("%s %q: %v", tt.tool, tt.data, err)
		}
		var refused *tool.Error
		if err != nil && (!errors.As(err, &refused) || refused.Code != tool.ExecutionFailed || refused.Reason != "RESULT_SCHEMA" || len(refused.Violations) == 0) {
			t.Errorf("%s %q: %#v", tt.tool, tt.data, err)
		}
	}
}

func TestCompileSchemaIsCached(t *testing.T) {
	r := registry.New(registry.Config{CachedSchemas: 2})
	compile := func(text string) *registry.Schema {
		t.Helper()
		s, err := r.CompileSchema(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := compile(`{"type":"string"}`)
	second := compile(`{"type":"null"}`)
	if compile(`{"type":"string"}`) != first {
		t.Error("compiled twice")
	}
	compile(`{"type":"array"}`) // The second schema is the least recently used one.
	if compile(`{"type":"string"}`) != first {
		t.Error("what was used last was thrown out")
	}
	if compile(`{"type":"null"}`) == second {
		t.Error("the cache grows")
	}
	for range 2 {
		if _, err := r.CompileSchema(json.RawMessage(`{"type":7}`)); err == nil {
			t.Error("a broken schema was accepted")
		}
		if _, err := r.CompileSchema(make(json.RawMessage, 10<<20)); err == nil {
			t.Error("10 MB were accepted")
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	r := registry.New(registry.Config{})
	register(t, r, "steady", makeTool(tool.Descriptor{ID: "copy", Parameters: json.RawMessage(`{"type":"object","properties":{"p":{"type":"string","pattern":"^a"},"next":{"$ref":"#"}}}`)}))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 50 {
				if err := r.Replace(fmt.Sprintf("src%d", i), named(fmt.Sprintf("t%d", i))...); err != nil {
					t.Error(err)
				}
				e, ok := r.View(registry.Offer{}).Lookup("copy")
				if !ok {
					t.Error("lost a tool")
					return
				}
				args := tool.NewArguments("", map[string]any{"next": map[string]any{"p": "b"}})
				if err := e.ValidateArguments(args); err == nil {
					t.Error("no violation")
				}
			}
		})
	}
	wg.Wait()
	if got := list(r, registry.Offer{}); len(got) != 5 {
		t.Errorf("tools = %v", got)
	}
}

// No source may use names of frontend tools, so a tool that a caller declares never replaces a registered tool.
func TestFrontendNamesAreReserved(t *testing.T) {
	r := registry.New(registry.Config{})
	for _, d := range []tool.Descriptor{{ID: "fe_x"}, {ID: "x", Aliases: []string{"fe_y"}}} {
		if err := r.Register("s", tool.Func(d, nil)); err == nil {
			t.Errorf("%q with the aliases %q was registered", d.ID, d.Aliases)
		}
	}
	e, err := r.Declared("frontend", tool.Func(tool.Descriptor{ID: "fe_x"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, found := r.Lookup("fe_x"); found || e.Digest == "" || e.Descriptor.Source != "frontend" {
		t.Error("a declared tool is in the registry")
	}
}
