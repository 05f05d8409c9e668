package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/lifecycle/documents"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// scopes are the document scopes of the calls that spec makes.
var scopes = []store.DocumentScope{{Scope: tool.NamespaceScope}, {Scope: tool.RunScope, ID: "run-1"}, {Scope: tool.ThreadScope, ID: "thread-1"}}

// values returns the documents in the scopes that the variable scopes lists.
func (w *world) values() []string {
	w.t.Helper()
	docs, err := w.store.Documents(w.t.Context(), "ns", scopes...)
	if err != nil {
		w.t.Fatal(err)
	}
	var values []string
	for _, d := range docs {
		values = append(values, fmt.Sprintf("%s %s=%s@%d", d.Scope, d.Key, d.Value, d.Revision))
	}
	return values
}

func (w *world) wantValues(want ...string) {
	w.t.Helper()
	if got := w.values(); !slices.Equal(got, want) {
		w.t.Errorf("documents %q, want %q", got, want)
	}
}

// notices returns the document events in a call's log.
func (w *world) notices(id string) string {
	var notices []string
	for _, ev := range w.checkLog(id) {
		if d := ev.Document; d != nil {
			notices = append(notices, strings.TrimSpace(fmt.Sprintf("%s@%d %s", d.Key, d.Revision, d.Conflict)))
		}
	}
	return strings.Join(notices, ", ")
}

// writes returns a tool whose result has these commands.
func writes(id string, effects tool.Effects, commands ...tool.Command) tool.Tool {
	return made(id, effects, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text("done").With(commands...), nil
	})
}

func TestDocumentCommands(t *testing.T) {
	n, list, o := tool.Key[int]{Scope: tool.RunScope, Name: "n"}, tool.Key[[]string]{Scope: tool.ThreadScope, Name: "list"}, tool.Key[map[string]int]{Scope: tool.ThreadScope, Name: "o"}
	first := writes("first", mutating, n.Add(2), list.Append("a"), o.Merge(map[string]any{"x": 1, "y": nil}), n.Add(3))
	second := writes("second", reading, n.Append("no list"), list.Append("b"), o.Merge(json.RawMessage(`{"x":null,"z":2}`)), n.SetAt(9, 1), n.Set(8))
	inBubble(t, []tool.Tool{first, second}, nil, func(t *testing.T, w *world) {
		if got := w.notices(w.do(spec("first", "")).ID); got != "n@1, list@1, o@1, n@2" {
			t.Errorf("published %s", got)
		}
		w.wantValues("RUN n=5@2", `THREAD list=["a"]@1`, `THREAD o={"x":1}@1`)
		c := w.do(spec("second", ""))
		if got := w.notices(c.ID); got != "n@2 TYPE, list@2, o@2, n@2 REVISION, n@3" || c.Status != call.Succeeded {
			t.Errorf("%s, published %s", c.Status, got)
		}
		w.wantValues("RUN n=8@3", `THREAD list=["a","b"]@2`, `THREAD o={"z":2}@2`)
	})
}

// TestDocumentLimitsAreReported checks that a document above a limit is dropped and reported by an event. The call and its other documents are
// kept.
func TestDocumentLimitsAreReported(t *testing.T) {
	key := func(name string) tool.Key[string] { return tool.Key[string]{Scope: tool.RunScope, Name: name} }
	greedy := writes("t", mutating, key("a").Set("12345678"), key("b").Set("123456789"), key("b").Set("x"), key("c").Set("x"))
	limits := func(c *lifecycle.Config) { c.Documents = documents.Settings{Size: 10, Count: 2} }
	inBubble(t, []tool.Tool{greedy}, limits, func(t *testing.T, w *world) {
		c := w.do(spec("t", ""))
		if got := w.notices(c.ID); got != "a@1, b@0 SIZE, b@1, c@0 ROOM" || c.Status != call.Succeeded {
			t.Errorf("%s, published %s", c.Status, got)
		}
		w.wantValues(`RUN a="12345678"@1`, `RUN b="x"@1`)
	})
	for _, d := range []documents.Settings{{Size: 1<<20 + 1}, {Count: -1}, {Total: 64<<20 + 1}} {
		inBubble(t, nil, nil, func(t *testing.T, w *world) {
			if _, err := lifecycle.New(lifecycle.Config{Store: w.store, Tools: &toolbox{}, Answers: answers{}, Documents: d}); err == nil {
				t.Errorf("an engine with %+v", d)
			}
		})
	}
}

func TestCommandsOfOneStepAreBounded(t *testing.T) {
	var commands []tool.Command
	for range 300 {
		commands = append(commands, tool.Key[int]{Scope: tool.RunScope, Name: "n"}.Add(1))
	}
	inBubble(t, []tool.Tool{writes("t", mutating, commands...)}, nil, func(t *testing.T, w *world) {
		if c := w.do(spec("t", "")); c.Status != call.Succeeded {
			t.Errorf("call %s", c.Status)
		}
		w.wantValues("RUN n=256@256")
	})
}

// TestNamespaceDocuments checks that only the configured tools can write documents of the namespace, and that every call can read them.
func TestNamespaceDocuments(t *testing.T) {
	shared := tool.Key[string]{Scope: tool.NamespaceScope, Name: "shared"}
	var seen string
	tools := []tool.Tool{
		writes("foreign", mutating, shared.Set("foreign"), tool.Key[int]{Scope: tool.RunScope, Name: "own"}.Set(1)),
		writes("shared_put", mutating, shared.Set("named")),
		made("look", reading, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			seen, _, _ = shared.Get(c)
			return tool.Text("done"), nil
		}),
	}
	config := func(c *lifecycle.Config) {
		c.Documents.NamespaceWriters = []string{"shared_*"}
		c.Hooks.After = []hook.Entry[hook.After]{{Name: "a", Match: hook.Match{Tools: []string{"look"}}, Hook: afterFunc(func(hook.Outcome) (hook.AfterResult, error) {
			return hook.AfterResult{Documents: []tool.Command{shared.Set("hook")}}, nil
		})}}
	}
	inBubble(t, tools, config, func(t *testing.T, w *world) {
		c := w.do(spec("foreign", ""))
		if got := w.notices(c.ID); got != "shared@0 SCOPE, own@1" || c.Status != call.Succeeded {
			t.Errorf("%s, published %s", c.Status, got)
		}
		w.do(spec("shared_put", ""))
		w.wantValues(`NAMESPACE shared="named"@1`, "RUN own=1@1")
		w.do(spec("look", ""))
		if seen != "named" {
			t.Errorf("seen %q", seen)
		}
		w.wantValues(`NAMESPACE shared="hook"@2`, "RUN own=1@1")
	})
}

// TestSnapshotIsOfOneMoment checks that all documents that a call reads are from the same time, even if other calls commit while it runs.
func TestSnapshotIsOfOneMoment(t *testing.T) {
	a, b := tool.Key[int]{Scope: tool.RunScope, Name: "a"}, tool.Key[int]{Scope: tool.ThreadScope, Name: "b"}
	began, free := make(chan struct{}), make(chan struct{})
	var seen []int
	tools := []tool.Tool{
		writes("both", mutating, a.Add(1), b.Add(1)),
		made("reads", reading, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			first, _, _ := a.Get(c)
			close(began)
			<-free
			second, _, _ := b.Get(c)
			third, _, _ := a.Get(c)
			seen = []int{first, second, third}
			return tool.Text("done"), nil
		}),
	}
	inBubble(t, tools, nil, func(t *testing.T, w *world) {
		w.do(spec("both", ""))
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.do(spec("reads", ""))
		}()
		<-began
		w.do(spec("both", ""))
		close(free)
		<-done
		if !slices.Equal(seen, []int{1, 1, 1}) {
			t.Errorf("seen %v", seen)
		}
	})
}
