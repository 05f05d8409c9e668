package lifecycle_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/tool"
)

// TestCallersGetAnIdForInternalErrors checks internal errors of the daemon, a hook and a tool. Callers get only an id; the log has the text
// under this id.
func TestCallersGetAnIdForInternalErrors(t *testing.T) {
	const inside = "dial tcp 10.0.0.5:7443: connection refused"
	failure := errors.New(inside)
	tests := map[string]func(*hook.Set){
		"gate": func(s *hook.Set) {
			s.Gate = append(s.Gate, namedGate("g", func(*hook.Input) (hook.Verdict, error) { return hook.Verdict{}, failure }))
		},
		"rewrite": func(s *hook.Set) {
			s.Rewrite = []hook.Entry[hook.Rewrite]{{Name: "r", Hook: rewriteFunc(func(*hook.Input) (string, error) { return "", failure })}}
		},
		"admit": func(s *hook.Set) {
			s.Admit = []hook.Entry[hook.Admit]{{Name: "a", Hook: admitFunc(func(*hook.Input) (func(), error) { return nil, failure })}}
		},
		"refusal": func(s *hook.Set) {
			s.Admit = []hook.Entry[hook.Admit]{{Name: "a", Hook: admitFunc(func(*hook.Input) (func(), error) { return nil, &tool.Error{DeveloperMessage: inside} })}}
		},
		"before": func(s *hook.Set) {
			s.Before = []hook.Entry[hook.Before]{{Name: "b", Required: true, Hook: beforeFunc(func(*hook.Input) ([]tool.Command, error) { return nil, failure })}}
		},
		"tool": func(*hook.Set) {},
	}
	ask := made("t", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, &tool.Error{Code: tool.ExecutionFailed, Message: "it failed", DeveloperMessage: inside}
	})
	answer := made("answers", mutating, func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Status: tool.StatusError, Error: &tool.Error{Message: "it failed", DeveloperMessage: inside}}, nil
	})
	for name, change := range tests {
		for _, id := range []string{"t", "answers"} {
			core, log := observer.New(zap.InfoLevel)
			inBubble(t, []tool.Tool{ask, answer}, func(c *lifecycle.Config) { change(&c.Hooks); c.Log = zap.New(core) }, func(t *testing.T, w *world) {
				preview, err := w.e.Describe(t.Context(), alice, spec(id, ""))
				if err != nil {
					t.Fatal(err)
				}
				c := w.do(spec(id, ""))
				shown, _ := json.Marshal([]any{preview, c, w.log(c.ID)})
				if strings.Contains(string(shown), "10.0.0.5") {
					t.Errorf("%s of %s: the caller reads %s", name, id, shown)
				}
				text := c.Result.Error.DeveloperMessage
				logged := log.FilterField(zap.String("id", text[strings.LastIndex(text, " ")+1:])).All()
				if len(logged) != 1 || logged[0].ContextMap()["error_text"] != inside {
					t.Errorf("%s of %s: the caller reads %q, the log has %v", name, id, text, logged)
				}
				own := spec(id, "")
				own.Run = tool.Run{}
				watcher, err := w.e.Execute(t.Context(), carol, own, call.ExecuteOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if c, err := watcher.Wait(t.Context(), time.Hour); err != nil || c.Result.Error.DeveloperMessage != inside {
					t.Errorf("%s of %s: the operator reads %q, %v", name, id, c.Result.Error.DeveloperMessage, err)
				}
			})
		}
	}
}
