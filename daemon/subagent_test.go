package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toold-dev/toold/cli"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tools/subagent/subagenttest"
)

// withSubagents writes a configuration with subagents that use a model, and returns the flags for it.
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

// configured adds text to the configuration that withSubagents wrote.
func (s *site) configured(more string) {
	s.t.Helper()
	config := filepath.Join(filepath.Dir(s.rules), "toold.yaml")
	text, err := os.ReadFile(config)
	must(s.t, err)
	must(s.t, os.WriteFile(config, append(text, more...), 0o600))
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

// children returns the calls of a run, oldest first.
func (p *proc) children(run string) []*tooldv1.Call {
	p.t.Helper()
	got, err := p.calls.ListCalls(within(p.t), &tooldv1.ListCallsRequest{RunId: run, Order: tooldv1.CallOrder_CALL_ORDER_OLDEST_FIRST})
	must(p.t, err)
	return got.GetCalls()
}

// The calls of a subagent are ordinary calls. They belong to a separate run that names the parent call. The subagent can use only tools that
// its caller was offered and that its own setting "tools" selects.
func TestSubagent(t *testing.T) {
	for _, protocol := range []string{"openai", "anthropic"} {
		t.Run(protocol, func(t *testing.T) {
			t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // No proxy listens at this address: the test shows that the subagent does not use the variable.
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

// waitingIn returns the suspended calls of a run, by tool.
func (p *proc) waitingIn(run string) map[string]*tooldv1.Call {
	open := map[string]*tooldv1.Call{}
	for _, c := range p.children(run) {
		if c.GetSuspension() != nil {
			open[c.GetTool()] = c
		}
	}
	return open
}

// runBelow returns the run that a call started. It finds the run in the inbox, where suspended calls name their parent.
func (p *proc) runBelow(parent string) (run string) {
	p.t.Helper()
	eventually(p.t, "a call below "+parent+" waits", func() bool {
		got, err := p.calls.ListCalls(within(p.t), &tooldv1.ListCallsRequest{Statuses: []tooldv1.CallStatus{callWaits}})
		must(p.t, err)
		for _, c := range got.GetCalls() {
			if c.GetRun().GetParentCallId() == parent {
				run = c.GetRun().GetRunId()
			}
		}
		return run != ""
	})
	return run
}

func (p *proc) subagent(id, task string) *tooldv1.Call {
	p.t.Helper()
	arguments, err := json.Marshal(map[string]string{"task": task})
	must(p.t, err)
	got, err := p.calls.CallTool(within(p.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "helper", CallId: id, Arguments: string(arguments)}})
	must(p.t, err)
	return got.GetCall()
}

func (p *proc) decide(c *tooldv1.Call, action tooldv1.DecisionAction) {
	p.t.Helper()
	s := c.GetSuspension()
	stream, err := p.calls.ResumeTool(within(p.t), &tooldv1.ResumeToolRequest{SuspensionId: s.GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: "decision-" + c.GetCallId(), Action: action, ExpectedDigest: s.GetDigest(),
	}})
	follow(p.t, stream, err).last(p.t)
}

// bashModel plays a model that requests three commands at once, and then answers with their results.
func bashModel(q *subagenttest.Question) subagenttest.Reply {
	if q.Turns() == 0 {
		var calls []subagenttest.Call
		for i := range 3 {
			calls = append(calls, subagenttest.Call{ID: "same", Name: "bash", Arguments: fmt.Sprintf(`{"command":"echo %d >> done.txt"}`, i)})
		}
		return subagenttest.Reply{Text: "I shall write.", Calls: calls}
	}
	var texts []string
	for _, r := range q.Last().Results {
		texts = append(texts, r.Text)
	}
	return subagenttest.Reply{Text: "Results: " + strings.Join(texts, " | ")}
}

const (
	yes = tooldv1.DecisionAction_DECISION_ACTION_RESUME
	no  = tooldv1.DecisionAction_DECISION_ACTION_CANCEL
)

// TestSubagentWaits checks questions in the calls of a subagent. Each question is a separate suspension, also after kill -9. The subagent
// waits for the answers without using a slot. It continues after the last decision and asks its model for no turn twice. This must also
// hold when redaction changes a value that looks like a secret.
func TestSubagentWaits(t *testing.T) {
	m := newModel(t, bashModel)
	s := newSite(t, "rules:\n  - {action: allow, tools: [helper]}\n  - {action: ask, tools: [bash]}\n")
	flags := append(s.withSubagents(m, "anthropic"), "--bash-profile", "none")
	s.configured("redact: {patterns: [{name: digests, expr: '[0-9a-f]{40}'}]}\n")
	p := s.start(flags...)
	parent := p.subagent("subagent-waits-001", "write")
	if a := parent.GetSuspension().GetAction(); a != "subagent" || parent.GetSuspension().GetMessage() != "Waits for bash (approval), bash (approval), bash (approval)" {
		t.Fatalf("the subagent stands at %v", parent)
	}
	below := p.runBelow("subagent-waits-001")
	list := new(run).do(t, s.data, "inbox").out
	if strings.Contains(list, "subagent-waits-001") || strings.Count(list, "bash") < 3 {
		t.Errorf("the inbox shows\n%s", list)
	}
	calls := p.children(below)
	p.decide(calls[0], yes)
	p.kill()
	p = s.start(flags...)
	if c, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: "subagent-waits-001"}); err != nil || c.GetCall().GetStatus() != callWaits || c.GetCall().GetSuspension().GetRound() != 1 {
		t.Fatalf("after a crash it stands at %v, %v", c, err)
	}
	p.decide(calls[1], no)
	p.decide(calls[2], yes)
	done := p.get("subagent-waits-001")
	if text := done.GetResult().GetMessage(); done.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || !strings.Contains(text, "Declined") {
		t.Errorf("it ended with %v", done)
	}
	wrote, err := os.ReadFile(filepath.Join(s.workspace, "done.txt"))
	must(t, err)
	if string(wrote) != "0\n2\n" {
		t.Errorf("done was %q", wrote)
	}
	if asked, _ := m.Asked(); len(asked) != 2 {
		t.Errorf("the model was asked %d times", len(asked))
	}
	eventually(t, "its run has ended", func() bool {
		r, err := p.calls.GetRun(within(t), &tooldv1.GetRunRequest{RunId: below})
		must(t, err)
		return r.GetRun().GetState() == tooldv1.RunState_RUN_STATE_ENDED
	})
}

// TestSubagentIsCancelled cancels and declines a subagent whose calls are suspended. Each of these calls must end as cancelled and never
// run.
func TestSubagentIsCancelled(t *testing.T) {
	m := newModel(t, bashModel)
	s := newSite(t, "rules:\n  - {action: allow, tools: [helper]}\n  - {action: ask, tools: [bash]}\n")
	p := s.start(append(s.withSubagents(m, "openai"), "--bash-profile", "none")...)
	for name, end := range map[string]func(c *tooldv1.Call){
		"cancelled": func(c *tooldv1.Call) {
			_, err := p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: c.GetCallId()})
			must(t, err)
		},
		"declined": func(c *tooldv1.Call) { p.decide(c, no) },
	} {
		id := "subagent-ends-" + name
		parent := p.subagent(id, "write")
		run := p.runBelow(id)
		end(parent)
		if c := p.get(id); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_CANCELLED {
			t.Errorf("%s: it ended with %v", name, c)
		}
		eventually(t, "nothing waits in the run", func() bool { return len(p.waitingIn(run)) == 0 })
		for _, c := range p.children(run) {
			if c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_CANCELLED || c.GetExecuted() != tooldv1.Executed_EXECUTED_NOT_STARTED {
				t.Errorf("%s: a call of it ended with %v", name, c)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "done.txt")); err == nil {
		t.Error("a command ran")
	}
}

// TestSubagentIsRestrictedLikeItsCaller checks the limits on the calls of a subagent. They can run even if the subagent holds the only slot. A
// permission mode of the run that called the subagent also restricts them. The API key is a secret that only the subagent may use.
func TestSubagentIsRestrictedLikeItsCaller(t *testing.T) {
	asked, goOn := make(chan struct{}), make(chan struct{})
	m := newModel(t, func(q *subagenttest.Question) subagenttest.Reply {
		one := func(name, arguments string) subagenttest.Reply {
			return subagenttest.Reply{Calls: []subagenttest.Call{{ID: "x", Name: name, Arguments: arguments}}}
		}
		switch {
		case q.Turns() == 0 && q.Task() == "below":
			close(asked)
			<-goOn
			return one("bash", `{"command":"touch done.txt"}`)
		case q.Turns() == 0:
			return one("other", `{"task":"below"}`)
		case q.Turns() == 1 && q.Task() == "below":
			return one("read", `{"path":"there.txt"}`)
		}
		var texts []string
		for _, m := range q.Messages {
			for _, r := range m.Results {
				texts = append(texts, r.Text)
			}
		}
		return subagenttest.Reply{Text: strings.Join(texts, " | ")}
	})
	s := newSite(t, "rules:\n  - {action: allow, tools: [helper, other, bash, read]}\n")
	must(t, os.WriteFile(filepath.Join(s.workspace, "there.txt"), []byte("it is there"), 0o600))
	s.withSubagents(m, "openai", "other")
	config := filepath.Join(filepath.Dir(s.rules), "toold.yaml")
	text, err := os.ReadFile(config)
	must(t, err)
	must(t, os.WriteFile(config, []byte(strings.ReplaceAll(string(text), "key_env: TOOLD_TEST_MODEL_KEY", "key: secret://model")+
		"limits: {concurrency: 1}\nsecrets:\n  - {name: model, env: TOOLD_TEST_MODEL_KEY, allow: [{tools: [helper, other], parameters: [key]}]}\n"), 0o600))
	p := s.start("--config", config, "--bash-profile", "none")
	ended := make(chan *tooldv1.Call, 1)
	go func() {
		got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
			Tool: "helper", CallId: "subagent-above-0001", Arguments: `{"task":"above"}`, Run: &tooldv1.Run{RunId: "run-above"},
		}})
		if err != nil {
			t.Error(err)
		}
		ended <- got.GetCall()
	}()
	<-asked
	_, err = p.calls.SetPermissionMode(within(t), &tooldv1.SetPermissionModeRequest{Selector: &tooldv1.SetPermissionModeRequest_RunId{RunId: "run-above"}, Mode: "plan"})
	must(t, err)
	close(goOn)
	c := <-ended
	if text := c.GetResult().GetMessage(); !strings.Contains(text, "it is there") || !strings.Contains(text, "plan") {
		t.Errorf("it ended with %v", c)
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "done.txt")); err == nil {
		t.Error("a command ran in the mode plan")
	}
	questions, _ := m.Asked()
	for _, q := range questions {
		if q.Key != "Bearer key-of-the-model" {
			t.Errorf("the key was %q", q.Key)
		}
		if q.Task() == "below" && slices.Contains(q.Tools, "helper") || q.Task() == "above" && !slices.Contains(q.Tools, "other") {
			t.Errorf("for %q these are offered: %v", q.Task(), q.Tools)
		}
	}
}

// TestT79KeyOfAnEndpointIsNowhere (T79) checks a model or an endpoint that repeats the key of the endpoint. The key, from a file or a
// variable, must not appear in answers, errors, arguments of calls, the log or the journal. This also holds for a key that was replaced.
func TestT79KeyOfAnEndpointIsNowhere(t *testing.T) {
	m := newModel(t, func(q *subagenttest.Question) subagenttest.Reply {
		switch {
		case q.Task() == "fail":
			return subagenttest.Reply{Status: http.StatusBadRequest, Body: `{"error":{"message":"no such key: ` + q.Key + `"}}`}
		case q.Turns() == 0:
			return subagenttest.Reply{Calls: []subagenttest.Call{{ID: "a", Name: "read", Arguments: `{"path":"key.txt"}`}}}
		}
		return subagenttest.Reply{Text: "the key is " + q.Key + ", the file has " + q.Last().Results[0].Text}
	})
	const byVariable, byFile, replaced = "key-of-the-model", "key-in-the-file", "the-key-that-came-next"
	s := newSite(t, "rules:\n  - {action: allow, tools: [helper, filed, read]}\n")
	file := filepath.Join(filepath.Dir(s.rules), "key")
	must(t, os.WriteFile(file, []byte(byFile+"\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(s.workspace, "key.txt"), []byte("of the file: "+byVariable+" "+byFile+"\n"), 0o600))
	flags := s.withSubagents(m, "openai")
	s.configured(fmt.Sprintf("  - {name: filed, protocol: openai, endpoint: %q, model: small, key_file: %q}\n", m.Endpoint("openai"), file))
	p := s.start(flags...)
	shown := ""
	do := func(name, task string, n int) {
		t.Helper()
		got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{
			Tool: name, CallId: fmt.Sprintf("subagent-keys-%04d", n), Arguments: fmt.Sprintf(`{"task":%q}`, task), Run: &tooldv1.Run{RunId: "run-1"},
		}})
		must(t, err)
		shown += got.GetCall().String() + "\n"
		for _, c := range p.children(got.GetCall().GetResult().GetMetadata()["run_id"]) {
			shown += c.String() + "\n"
		}
	}
	do("helper", "say", 1)
	do("filed", "say", 2)
	do("helper", "fail", 3)
	must(t, os.WriteFile(file, []byte(replaced), 0o600))
	do("filed", "say", 4)
	do("filed", "fail", 5)
	for _, want := range []string{"the key is Bearer ", "of the file: "} {
		if strings.Count(shown, want) < 3 {
			t.Errorf("the answers do not contain the model's answer: %s", shown)
		}
	}
	questions, _ := m.Asked()
	var sent []string
	for _, q := range questions {
		sent = append(sent, strings.TrimPrefix(q.Key, "Bearer "))
	}
	for _, key := range []string{byVariable, byFile, replaced} {
		if !slices.Contains(sent, key) {
			t.Errorf("the endpoint was sent %q, never %s", sent, key)
		}
	}
	journal := filesOf(t, s.data) // before the write-ahead log is removed
	p.signal(syscall.SIGTERM)
	p.wait(hangs)
	for source, text := range map[string]string{"answers": shown, "journal": string(journal), "log": p.log.String(), "files": string(filesOf(t, s.data))} {
		for _, key := range []string{byVariable, byFile, replaced} {
			if strings.Contains(text, key) {
				t.Errorf("%s is in the %s", key, source)
			}
		}
	}
}

// The commands and settings in docs/reference/tools/subagent.md work as written.
func TestSubagentPage(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/tools/subagent.md")
	must(t, err)
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	config, rest, _ := strings.Cut(rest, "```")
	_, rest, _ = strings.Cut(rest, "$ toold ")
	command, _, _ := strings.Cut(rest, "\n")
	m := newModel(t, func(q *subagenttest.Question) subagenttest.Reply {
		if q.Turns() == 0 {
			return subagenttest.Reply{Calls: []subagenttest.Call{{ID: "1", Name: "grep", Arguments: `{"pattern":"melon"}`}}}
		}
		return subagenttest.Reply{Text: "For " + q.Task() + " " + q.Last().Results[0].Text}
	})
	s := newSite(t, "rules:\n  - {action: allow, tools: [researcher, grep]}\n")
	must(t, os.WriteFile(filepath.Join(s.workspace, "fruit.txt"), []byte("a melon\n"), 0o600))
	file := filepath.Join(filepath.Dir(s.rules), "toold.yaml")
	must(t, os.WriteFile(file, []byte(strings.Replace(config, "http://127.0.0.1:11434/v1", m.Endpoint("openai"), 1)), 0o600))
	s.start("--config", file)
	verb, task, _ := strings.Cut(command, " task=")
	args := append(strings.Fields(verb), "task="+strings.Trim(task, "'"))
	if r := new(run).do(t, s.data, args...); r.code != cli.ExitOK || !strings.Contains(r.out, "fruit.txt:1:a melon") {
		t.Errorf("exit code %d, output %s%s", r.code, r.out, r.err)
	}
	if asked, _ := m.Asked(); len(asked) != 2 || !slices.Equal(asked[0].Tools, []string{"glob", "grep", "read"}) || asked[0].Model != "qwen3" {
		t.Errorf("the model was asked %+v", asked)
	}
}
