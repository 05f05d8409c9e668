package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// A taskState is what tasks/get says about a task.
type taskState struct {
	Result struct {
		TaskID, Status, StatusMessage string
		Result                        struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
}

// text returns the first text of the result of a task that has ended.
func (s taskState) text() string {
	if len(s.Result.Result.Content) == 0 {
		return ""
	}
	return s.Result.Result.Content[0].Text
}

// task sends a request of MCP whose answer is a task.
func (p *proc) task(t *testing.T, token, method, name, params string) (s taskState) {
	t.Helper()
	code, text := p.sendMCP(t, token, method, name, params)
	at := strings.Index(text, "{")
	if code != 200 || at < 0 {
		t.Fatalf("%s %s returned %d %s", method, name, code, text)
	}
	must(t, json.NewDecoder(strings.NewReader(text[at:])).Decode(&s))
	return s
}

const slowTool = `
id: %s
description: Leaves a line, then takes long.
parameters: {properties: {}}
metadata: {mcp.task: always}
effects: {mutability: MUTATING}
run: {program: ./run.sh, args: [%s], profile: none}
`

// TestTaskAfterKill kills the daemon with kill -9 while the tool of one task runs and another task waits for a person. The next daemon
// reports the true state of both, and neither tool runs twice.
func TestTaskAfterKill(t *testing.T) {
	s := newSite(t, "rules:\n  - {name: person, action: ask, tools: [asked]}\n  - {name: rest, action: allow, tools: [\"*\"]}\n")
	dir := filepath.Join(filepath.Dir(s.rules), "tools")
	must(t, os.Mkdir(dir, 0o755))
	for _, id := range []string{"running", "asked"} {
		must(t, os.WriteFile(filepath.Join(dir, id+".yaml"), fmt.Appendf(nil, slowTool, id, id), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\necho began >> \"$1\"\n[ \"$1\" = asked ] || exec sleep 1000\n"), 0o700))
	flags := []string{"--listen-http", "127.0.0.1:0", "--command-directory", dir}
	runs := func(id string) int {
		text, _ := os.ReadFile(filepath.Join(s.workspace, id)) // the file does not exist before the first run
		return strings.Count(string(text), "began\n")
	}

	p := s.start(flags...)
	token, err := os.ReadFile(p.ready.TokenFile)
	must(t, err)
	secret := strings.TrimSpace(string(token))
	tasks := map[string]string{}
	for _, id := range []string{"running", "asked"} {
		begun := p.task(t, secret, "tools/call", id, fmt.Sprintf(`"name":%q,"arguments":{},"_meta":{"toold/callId":"the-task-of-%s"}`, id, id))
		if tasks[id] = begun.Result.TaskID; tasks[id] != "the-task-of-"+id {
			t.Fatalf("tools/call of %s returned %+v", id, begun)
		}
	}
	eventually(t, "the tool begins", func() bool { return runs("running") == 1 })
	p.signal(syscall.SIGKILL)
	<-p.ended

	p = s.start(flags...)
	get := func(id string) taskState {
		t.Helper()
		return p.task(t, secret, "tasks/get", tasks[id], fmt.Sprintf(`"taskId":%q`, tasks[id]))
	}
	if is := get("running"); is.Result.Status != "completed" || !is.Result.Result.IsError || !strings.Contains(is.text(), "not known whether this ran") {
		t.Errorf("the task whose tool ran is %+v", is)
	}
	if is := get("asked"); is.Result.Status != "working" || is.Result.StatusMessage == "" {
		t.Errorf("the task that waits for a person is %+v", is)
	}
	again := p.task(t, secret, "tools/call", "running", `"name":"running","arguments":{},"_meta":{"toold/callId":"the-task-of-running"}`)
	if again.Result.TaskID != tasks["running"] {
		t.Errorf("the repeated request returned %+v", again)
	}
	waiting, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: tasks["asked"]})
	must(t, err)
	q := waiting.GetCall().GetSuspension()
	stream, err := p.calls.ResumeTool(within(t), &tooldv1.ResumeToolRequest{SuspensionId: q.GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: "the-approval-of-the-task", Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: q.GetDigest(),
	}})
	follow(t, stream, err).last(t)
	if is := get("asked"); is.Result.Status != "completed" || is.Result.Result.IsError {
		t.Errorf("the approved task is %+v", is)
	}
	for _, id := range []string{"running", "asked"} {
		if n := runs(id); n != 1 {
			t.Errorf("the tool of the task %s ran %d times, want once", id, n)
		}
	}
}
