package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toold-dev/toold/call"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/lifecycle"
	"github.com/toold-dev/toold/registry"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tools/frontend"
)

// withFrontends lets callers declare frontend tools, as the daemon does.
func withFrontends(c *lifecycle.Config) {
	r := registry.New(registry.Config{})
	c.Frontend = func(f *tool.FrontendTool) (*lifecycle.Definition, error) {
		e, err := r.Declared(frontend.Source, frontend.New(f))
		if err != nil {
			return nil, err
		}
		return &lifecycle.Definition{Tool: e.Tool, Descriptor: &e.Descriptor, Digest: e.Digest, Schema: e}, nil
	}
}

func declaring(args string, tools ...tool.FrontendTool) call.Spec {
	s := spec(tools[0].Name, args)
	s.Frontend = tools
	return s
}

var pick = tool.FrontendTool{
	Name: "fe_pick", Parameters: json.RawMessage(`{"type":"object","properties":{"of":{"type":"integer"}}}`),
	ResponseSchema: json.RawMessage(`{"type":"string"}`),
}

// TestFrontendSurvivesACrash checks that a question to the frontend is stored with the declaration of its tool. Another daemon needs the
// declaration when it receives the answer.
func TestFrontendSurvivesACrash(t *testing.T) {
	inBubble(t, nil, withFrontends, func(t *testing.T, w *world) {
		c := w.do(declaring(`{"of":3}`, pick))
		if c.Open() == nil || c.Open().Action != "frontend" || c.Open().ResumeMode != tool.UseDecisionAsToolResult {
			t.Fatalf("the call is %s %+v", c.Status, c.Open())
		}
		w.crash()
		_, err := w.resume(alice, c, tool.Decision{Action: tool.Resume, Result: `7`})
		wantRefusal(t, err, call.InvalidArgument, "ANSWER_INVALID")
		c, err = w.resume(alice, c, tool.Decision{Action: tool.Resume, Result: `"b"`})
		if err != nil || c.Status != call.Succeeded || c.Result.Data != `"b"` || c.Frontend == nil {
			t.Fatalf("the call is %+v, %v", c, err)
		}
	})
}

// TestFrontendIsAskedAgain checks that the frontend is asked again after a crash before its question was stored. This is harmless, because
// the frontend has not received the first question.
func TestFrontendIsAskedAgain(t *testing.T) {
	inBubble(t, nil, withFrontends, func(t *testing.T, w *world) {
		s := declaring(`{}`, pick)
		w.crashAt("after-tool", func() {
			watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			watcher.Close()
		})
		if c := w.do(s); c.Open() == nil || c.Open().Action != "frontend" {
			t.Errorf("the call is %s: %s", c.Status, c.Result.ModelText())
		}
	})
}

// TestFrontendIsGated checks that gates and the list of hidden tools also apply to frontend tools. A declaration cannot make the effects of
// a tool look more harmless.
func TestFrontendIsGated(t *testing.T) {
	var seen tool.Effects
	deny := namedGate("deny", func(in *hook.Input) (hook.Verdict, error) {
		seen = in.Assessment
		return hook.SetResult(&tool.Result{Status: tool.StatusError, Error: &tool.Error{Code: tool.Denied, Message: "no"}}), nil
	})
	inBubble(t, nil, func(c *lifecycle.Config) { withFrontends(c); gates(deny)(c) }, func(t *testing.T, w *world) {
		if c := w.do(declaring(`{}`, pick)); c.Status != call.Failed || c.Result.Error.Code != tool.Denied || len(c.Rounds) > 0 {
			t.Errorf("the call is %s with %d questions", c.Status, len(c.Rounds))
		}
		if seen.Tier != tool.Confirm || seen.Mutability != tool.Mutating {
			t.Errorf("the gate saw %+v", seen)
		}
	})
	hide := func(_ tool.Principal, d *tool.Descriptor) bool { return strings.HasPrefix(d.ID, "fe_") }
	inBubble(t, nil, func(c *lifecycle.Config) { withFrontends(c); c.Hide = hide }, func(t *testing.T, w *world) {
		if c := w.do(declaring(`{}`, pick)); c.Status != call.Failed || c.Result.Error.Code != tool.NotFound {
			t.Errorf("a hidden one is %s", c.Status)
		}
	})
}

func TestDeclarationsAreBounded(t *testing.T) {
	many := func(n, size int) (list []tool.FrontendTool) {
		for i := range n {
			list = append(list, tool.FrontendTool{Name: fmt.Sprintf("fe_%d", i), Description: strings.Repeat("x", size)})
		}
		return list
	}
	inBubble(t, []tool.Tool{echo("t", reading)}, withFrontends, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			name  string
			tools []tool.FrontendTool
			ok    bool
		}{
			{"as many as may be", many(64, 10), true},
			{"one more", many(65, 10), false},
			{"as large as may be", many(60, 4<<10), true},
			{"too large", many(64, 5<<10), false},
			{"a tool of the daemon", []tool.FrontendTool{{Name: "t"}}, false},
			{"no name", []tool.FrontendTool{{}}, false},
			{"another letter that looks alike", []tool.FrontendTool{{Name: "fе_x"}}, false}, // the e is a Cyrillic letter
		} {
			s := spec("t", "{}")
			s.Frontend = tt.tools
			watcher, err := w.e.Execute(t.Context(), alice, s, call.ExecuteOptions{})
			if err == nil {
				watcher.Close()
			}
			if (err == nil) != tt.ok {
				t.Errorf("%s: %v", tt.name, err)
			}
		}
		broken := pick
		broken.ResponseSchema = json.RawMessage(`{"$ref":"https://example.com/x"}`)
		_, err := w.e.Execute(t.Context(), alice, declaring("{}", broken), call.ExecuteOptions{})
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD")
	})
	inBubble(t, []tool.Tool{echo("t", reading)}, nil, func(t *testing.T, w *world) {
		_, err := w.e.Execute(t.Context(), alice, declaring("{}", pick), call.ExecuteOptions{})
		wantRefusal(t, err, call.InvalidArgument, "INVALID_FIELD") // The call is refused, because no frontend would execute it.
	})
}
