package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tools/subagent/subagenttest"
)

// withSubagents writes a configuration with subagents of a model and returns the flags for it.
func (s *site) withSubagents(model *subagenttest.Server, protocol string, more ...string) []string {
	s.t.Helper()
	text := "subagents:\n"
	for _, name := range append([]string{"helper"}, more...) {
		text += fmt.Sprintf("  - {name: %s, protocol: %s, endpoint: %q, model: small, key_env: TOOLD_TEST_MODEL_KEY, tools: {exclude: [todo_*]}}\n", name, protocol, model.Endpoint(protocol))
	}
	config := filepath.Join(filepath.Dir(s.rules), "toold.yaml")
	must(s.t, os.WriteFile(config, []byte(text), 0o600))
	s.t.Setenv("TOOLD_TEST_MODEL_KEY", "key-of-the-model")
	return []string{"--config", config}
}

func newModel(t *testing.T, reply func(q *subagenttest.Question) subagenttest.Reply) *subagenttest.Server {
	t.Helper()
	m := subagenttest.New(reply)
	t.Cleanup(m.Close)
	t.Cleanup(func() {
		if _, wrong := m.Asked(); len(wrong) > 0 {
			t.Errorf("the model was asked what no provider takes: %q", wrong)
		}
	})
	return m
}

// children are the calls of the run that a call began, oldest first.
func (p *proc) children(run string) []*tooldv1.Call {
	p.t.Helper()
	got, err := p.calls.ListCalls(within(p.t), &tooldv1.ListCallsRequest{RunId: run, Order: tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST})
	must(p.t, err)
	return got.GetCalls()
}

// A subagent works through the ordinary path, in a run of its own that names where it comes from, with the tools that its caller
// may use and no others.
func TestSubagent(t *testing.T) {
	for _, protocol := range []string{"openai", "anthropic"} {
		t.Run(protocol, func(t *testing.T) {
			t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // nobody's
			m := newModel(t, func(q *subagenttest.Question) subagenttest.Reply {
				switch q.Turns() {
				case 0:
					return subagenttest.Reply{In: 100, Out: 10, Calls: []subagenttest.Call{
						{ID: "a", Name: "read", Arguments: `{"path":"secret.txt"}`}, {ID: "b", Name: "grep", Arguments: `{"pattern":"word"}`}, {ID: "c", Name: "todo_read", Arguments: `{}`},
					}}
				default:
					var texts []string
					for _, r := range q.Last().Results {
						texts = append(texts, r.Text)
					}
					return subagenttest.Reply{In: 200, Out: 20, Text: "It says: " + strings.Join(texts, " | ")}
				}
			})
			s := newSite(t, "rules:\n  - {action: deny, tools: [glob]}\n  - {action: allow, tools: [helper, read, grep]}\n")
			must(t, os.WriteFile(filepath.Join(s.workspace, "secret.txt"), []byte("the word is melon\n"), 0o600))
			p := s.start(s.withSubagents(m, protocol)...)
			got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
				Tool: "helper", CallId: "subagent-parent-1", Arguments: `{"task":"find the word"}`,
				Run: &tooldv1.Run{RunId: "run-1", ThreadId: "thread-1", Agent: &tooldv1.Agent{Tools: &tooldv1.OfferedTools{Exclude: []string{"bash*"}}}},
			}})
			must(t, err)
			text := got.GetCall().GetResult().GetMessage()
			if !strings.Contains(text, "the word is melon") || !strings.Contains(text, "There is no tool \"todo_read\"") {
				t.Fatalf("the subagent ended with %v", got.GetCall())
			}
			meta := got.GetCall().GetResult().GetMetadata()
			if meta["input_tokens"] != "300" || meta["output_tokens"] != "30" || meta["turns"] != "2" || meta["tool_calls"] != "3" {
				t.Errorf("it took %v", meta)
			}
			calls := p.children(meta["run_id"])
			if len(calls) != 3 {
				t.Fatalf("its run has %d calls", len(calls))
			}
			for _, c := range calls {
				r := c.GetRun()
				if r.GetParentCallId() != "subagent-parent-1" || r.GetParentRunId() != "run-1" || r.GetParentThreadId() != "thread-1" || r.GetOrigin() != "subagent" || c.GetCaller().GetSubject() != got.GetCall().GetCaller().GetSubject() {
					t.Errorf("%s comes from %v of %v", c.GetTool(), r, c.GetCaller())
				}
			}
			asked, _ := m.Asked()
			if len(asked) != 2 || asked[0].Task() != "find the word" || !strings.Contains(asked[0].Key, "key-of-the-model") || asked[0].Idempotency == asked[1].Idempotency {
				t.Errorf("the model was asked %+v", asked)
			}
			offered := strings.Join(asked[0].Tools, " ")
			for _, not := range []string{"bash", "glob", "todo_read"} {
				if strings.Contains(offered, not) {
					t.Errorf("%s is offered: %s", not, offered)
				}
			}
			if !strings.Contains(offered, "read") || !strings.Contains(offered, "helper") {
				t.Errorf("offered are %s", offered)
			}
		})
	}
}
