package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/store"
	"github.com/toold-dev/toold/tool"
)

// TestDeleteOfMissingDocumentIsNotPublished checks that the delete of a missing document publishes no event, and that the event numbers have no gap.
func TestDeleteOfMissingDocumentIsNotPublished(t *testing.T) {
	a, b, c := tool.Key[string]{Scope: tool.RunScope, Name: "a"}, tool.Key[string]{Scope: tool.RunScope, Name: "b"}, tool.Key[string]{Scope: tool.RunScope, Name: "c"}
	tidy := made("tidy", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text("done").With(a.Delete(), b.Set("x"), c.Delete(), c.SetAt("y", 7)), nil
	})
	inBubble(t, []tool.Tool{tidy}, nil, func(t *testing.T, w *world) {
		id := w.do(spec("tidy", "")).ID
		list := w.checkLog(id)
		if got := types(t, 1, list); got != "accepted attempt_started document_changed state_conflict finished" {
			t.Errorf("log: %s", got)
		}
		for _, ev := range list {
			if ev.Type == call.EventDocumentChanged && (ev.Document.Key != "b" || ev.Document.Revision != 1) {
				t.Errorf("published %+v", ev.Document)
			}
		}
		if c := w.get(id); c.LastSequence != 5 {
			t.Errorf("record ends at %d", c.LastSequence)
		}
	})
}

// TestDocumentsThatCannotBeStored checks that an invalid document command of a tool or hook is dropped and that the result of the call is
// kept.
func TestDocumentsThatCannotBeStored(t *testing.T) {
	key := tool.Key[string]{Scope: tool.RunScope, Name: "a"}
	for name, command := range map[string]tool.Command{
		"unknown command": {Op: "increment", Scope: tool.RunScope, Key: "a", Value: `{}`},
		"no command":      {Scope: tool.RunScope, Key: "a", Value: `{}`},
		"no JSON":         {Op: tool.OpSet, Scope: tool.RunScope, Key: "a", Value: `{`},
		"no value":        {Op: tool.OpSet, Scope: tool.RunScope, Key: "a"},
		"bytes in a text": {Op: tool.OpSet, Scope: tool.RunScope, Key: "a", Value: "\"\xff\""},
		"bytes in a key":  {Op: tool.OpSet, Scope: tool.RunScope, Key: "a\xff", Value: `1`},
		"no key":          {Op: tool.OpSet, Scope: tool.RunScope, Value: `1`},
	} {
		for _, effects := range []tool.Effects{reading, mutating} {
			t.Run(name+" "+string(effects.Normal().Mutability), func(t *testing.T) {
				careless := made("t", effects, func(context.Context, *tool.Call) (*tool.Result, error) {
					return tool.Text("done").With(command, key.Set("kept")), nil
				})
				inBubble(t, []tool.Tool{careless}, nil, func(t *testing.T, w *world) {
					c := w.do(spec("t", ""))
					if c.Status != call.Succeeded {
						t.Errorf("call %s %+v", c.Status, c.Result)
					}
					if got := types(t, 1, w.checkLog(c.ID)); got != "accepted attempt_started document_changed finished" {
						t.Errorf("log: %s", got)
					}
				})
			})
		}
	}
}

// TestEndThatTheJournalRefusesForItsDocuments checks that the call still succeeds and is stored when the journal refuses its documents, for
// whatever reason. toold drops the documents and publishes state_conflict. It cannot fail the call, because watchers have already received
// its events.
func TestEndThatTheJournalRefusesForItsDocuments(t *testing.T) {
	key := tool.Key[string]{Scope: tool.RunScope, Name: "a"}
	prepares := func(c *lifecycle.Config) {
		c.Hooks.Before = []hook.Entry[hook.Before]{{Name: "b", Hook: beforeFunc(func(*hook.Input) ([]tool.Command, error) {
			return []tool.Command{key.Set("x")}, nil
		})}}
	}
	for name, refusal := range map[string]error{"conflict": store.ErrConflict, "corrupt": store.ErrCorrupt, "other": errors.New("too big")} {
		for _, asking := range []bool{false, true} {
			for _, effects := range []tool.Effects{reading, mutating} {
				t.Run(fmt.Sprintf("%s %s %t", name, effects.Normal().Mutability, asking), func(t *testing.T) {
					made := made("t", effects, func(_ context.Context, c *tool.Call) (*tool.Result, error) {
						if asking && c.Resume == nil {
							return tool.Suspended("?").With(key.Set("y")), nil
						}
						return tool.Text("done"), nil
					})
					inBubble(t, []tool.Tool{made}, prepares, func(t *testing.T, w *world) {
						w.useStore(nil, func(c *store.Change) error {
							if len(c.Documents) > 0 {
								return refusal
							}
							return nil
						})
						c := w.do(spec("t", ""))
						want := "accepted attempt_started state_conflict finished"
						if asking {
							want = "accepted attempt_started state_conflict state_conflict suspended resumed attempt_started state_conflict finished"
							c = w.answer(alice, c, yes())
						}
						if c.Status != call.Succeeded {
							t.Fatalf("call %s %+v", c.Status, c.Result)
						}
						w.crash()
						got := strings.ReplaceAll(types(t, 1, w.checkLog(c.ID)), " queued", "") // Ignore queued events: the call may have waited because the previous pipeline run had not released its turn yet.
						if got != want {
							t.Errorf("log: %s", got)
						}
					})
				})
			}
		}
	}
}
