package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// This file compares the documents of the engine with a simple reference, a map. Concurrent calls send commands. The logs of the calls and
// the stored documents must equal the result of applying the commands to the map, in the order in which the calls committed.

// modelled is a document in the reference map: its value as encoding/json decodes it, and its revision. The revision keeps growing when the
// document is deleted and created again.
type modelled struct {
	value    any
	there    bool
	revision int64
}

type documentModel map[string]*modelled

// apply executes a command. It returns the event that should report the command, or "" for none.
func (m documentModel) apply(c *tool.Command) string {
	name := string(c.Scope) + " " + c.Key
	d := m[name]
	if d == nil {
		d = &modelled{}
		m[name] = d
	}
	revision := int64(0)
	if d.there {
		revision = d.revision
	}
	notice := func(conflict string) string {
		return strings.TrimSpace(fmt.Sprintf("%s@%d %s", c.Key, revision, conflict))
	}
	if c.Expected != nil && *c.Expected != revision {
		return notice("REVISION")
	}
	if c.Op == tool.OpDelete {
		if !d.there {
			return ""
		}
		*d = modelled{revision: d.revision + 1}
		revision = d.revision
		return notice("")
	}
	value, ok := d.changed(c)
	if !ok {
		return notice("TYPE")
	}
	*d = modelled{value, true, d.revision + 1}
	revision = d.revision
	return notice("")
}

// changed returns the value of the document after a command.
func (d *modelled) changed(c *tool.Command) (any, bool) {
	v := decoded(c.Value)
	switch c.Op {
	case tool.OpSet:
		return v, true
	case tool.OpMerge:
		return patched(d.value, v), true
	case tool.OpAppend:
		list, ok := d.value.([]any)
		return append(append([]any{}, list...), v), ok || !d.there
	case tool.OpAdd:
		n, ok := d.value.(json.Number)
		if !d.there {
			n, ok = "0", true
		}
		if !ok {
			return nil, false
		}
		sum := new(big.Rat).Add(rational(n), rational(v.(json.Number)))
		return json.Number(sum.RatString()), true
	}
	return nil, false
}

func patched(target, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object := map[string]any{}
	if before, ok := target.(map[string]any); ok {
		for k, v := range before {
			object[k] = v
		}
	}
	for k, v := range changes {
		if object[k] = patched(object[k], v); v == nil {
			delete(object, k)
		}
	}
	return object
}

func rational(n json.Number) *big.Rat {
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

func decoded(text string) (v any) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		panic(err)
	}
	return v
}

// plain converts numbers to fractions, so that equal numbers have the same text.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		return rational(v).RatString()
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

func drawCommands(t *rapid.T) []tool.Command {
	values := map[tool.CommandOp][]string{
		tool.OpSet: {`1`, `"x"`, `[1]`, `{"a":{"b":1}}`}, tool.OpMerge: {`{"a":null}`, `{"a":{"b":null,"c":2}}`, `7`},
		tool.OpAdd: {`1`, `-2.5`, `1e3`}, tool.OpAppend: {`1`, `[2]`}, tool.OpDelete: {``},
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) tool.Command {
		c := tool.Command{
			Op:    rapid.SampledFrom([]tool.CommandOp{tool.OpSet, tool.OpMerge, tool.OpAdd, tool.OpAdd, tool.OpAppend, tool.OpDelete}).Draw(t, "op"),
			Scope: rapid.SampledFrom([]tool.Scope{tool.RunScope, tool.ThreadScope}).Draw(t, "scope"),
			Key:   rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"),
		}
		c.Value = rapid.SampledFrom(values[c.Op]).Draw(t, "value")
		if n := rapid.Int64Range(-6, 3).Draw(t, "expected"); n >= 0 {
			c.Expected = &n
		}
		return c
	}), 1, 6).Draw(t, "commands")
}

func TestDocumentModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		calls := rapid.SliceOfN(rapid.Custom(drawCommands), 1, 8).Draw(rt, "calls")
		var failed error
		tools := []tool.Tool{commanded("reads", reading, calls), commanded("writes", mutating, calls)}
		inBubble(t, tools, nil, func(_ *testing.T, w *world) { failed = playDocuments(w, calls) })
		if failed != nil {
			rt.Fatal(failed)
		}
	})
}

// commanded returns a tool whose argument is the number of a call. It returns the commands of that call.
func commanded(id string, effects tool.Effects, calls [][]tool.Command) tool.Tool {
	return made(id, effects, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		n, err := strconv.Atoi(c.Arguments.String("n"))
		if err != nil {
			return nil, err
		}
		return tool.Text("done").With(calls[n]...), nil
	})
}

func playDocuments(w *world, calls [][]tool.Command) error {
	ids := make([]string, len(calls))
	numbers := map[string]int{}
	var all sync.WaitGroup
	for n := range calls {
		s := spec([]string{"reads", "writes"}[n%2], fmt.Sprintf(`{"n":"%d"}`, n))
		ids[n], numbers[s.ID] = s.ID, n
		watcher, err := w.e.Execute(w.t.Context(), alice, s, call.ExecuteOptions{})
		if err != nil {
			return err
		}
		all.Go(func() { _, _ = watcher.Wait(w.t.Context(), 3600e9) })
	}
	all.Wait()
	feed, _, err := w.store.Feed(w.t.Context(), store.Feed{Namespace: "ns"}, 0, 1000)
	if err != nil {
		return err
	}
	model := documentModel{}
	var order []int
	for _, entry := range feed {
		if last := &entry.Events[len(entry.Events)-1]; last.Type == call.EventFinished {
			order = append(order, numbers[entry.Key.ID])
		}
	}
	for _, n := range order {
		var want []string
		for i := range calls[n] {
			if notice := model.apply(&calls[n][i]); notice != "" {
				want = append(want, notice)
			}
		}
		if got := w.notices(ids[n]); got != strings.Join(want, ", ") {
			return fmt.Errorf("call %d published %q, the model %q", n, got, want)
		}
	}
	if len(order) != len(calls) {
		return errors.New("a call did not end")
	}
	return model.compare(w)
}

func (m documentModel) compare(w *world) error {
	docs, err := w.store.Documents(w.t.Context(), "ns", scopes...)
	if err != nil {
		return err
	}
	there := 0
	for _, d := range m {
		if d.there {
			there++
		}
	}
	if there != len(docs) {
		return fmt.Errorf("%d documents, the model has %d", len(docs), there)
	}
	for _, d := range docs {
		want := m[string(d.Scope)+" "+d.Key]
		if want == nil || d.Revision != want.revision || !reflect.DeepEqual(plain(decoded(d.Value)), plain(want.value)) {
			return fmt.Errorf("%s %s is %s@%d, in the model %+v", d.Scope, d.Key, d.Value, d.Revision, want)
		}
	}
	return nil
}
