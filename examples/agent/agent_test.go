package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	toold "github.com/toold-dev/toold/sdk/go"
	"github.com/toold-dev/toold/test/model"
)

// agents are the example agents. Each function installs the released package and the agent into an empty directory, and returns the command
// that runs the agent there.
var agents = map[string]func(t *testing.T, dir string) []string{
	"go":         installGo,
	"python":     installPython,
	"typescript": installTypeScript,
}

const (
	task  = "Deploy to the east."
	final = "East is deployed, and there are four marks."
)

// TestAgents plays the story of testdata/story.jsonl with each agent, the real daemon and the recorded model.
func TestAgents(t *testing.T) {
	for name, install := range agents {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command := install(t, dir)
			p := newPlay(t, dir, append(command, task))
			p.perform(t)
		})
	}
}

// perform plays the story. In it, the agent and the daemon are killed while a tool runs between two tools that change something.
func (p *play) perform(t *testing.T) {
	a := p.start(t)
	a.awaitText(t, "half of scan east") // both calls report progress before one of them can end
	a.awaitText(t, "half of scan west")
	p.release(t, "east")
	p.release(t, "west")
	p.approve(t, a)

	a.awaitText(t, "half of hold agent")
	a.kill(t)
	must(t, os.WriteFile(filepath.Join(p.dir, "history.new"), []byte(`[{"mess`), 0o600)) // An agent that is killed while it writes the history leaves such a file.
	a = p.start(t)
	p.release(t, "agent")

	a.awaitText(t, "half of hold daemon")
	p.daemon.kill(t)
	p.serve(t)
	p.release(t, "daemon")
	if out := a.end(t); out != final+"\n" {
		t.Errorf("the agent printed %q, want %q", out, final)
	}
	if out := p.start(t).end(t); out != final+"\n" { // The agent starts with a complete history.
		t.Errorf("started again, the agent printed %q, want %q", out, final)
	}
	p.forget(t, 3)
	if out := p.start(t).end(t); out != final+"\n" { // The agent sends again a turn that has already ended.
		t.Errorf("started with the history of an earlier moment, the agent printed %q, want %q", out, final)
	}
	p.check(t)
}

// forget removes everything after this response of the model from the history, as if the agent had been killed right after the response.
func (p *play) forget(t *testing.T, response int) {
	t.Helper()
	file := filepath.Join(p.dir, "history.json")
	text, err := os.ReadFile(file)
	must(t, err)
	var history []map[string]any
	must(t, json.Unmarshal(text, &history))
	for i, line := range history {
		if line["turn_id"] != nil {
			response--
		}
		if response < 0 {
			history = history[:i+1]
			break
		}
	}
	text, err = json.Marshal(history)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
}

// check checks that each tool ran once and in order, and that the model answered every step.
func (p *play) check(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.workspace, "counter"))
	must(t, err)
	if ran, want := strings.Fields(string(text)), strings.Fields("deploy east mark a mark b mark c mark d"); !slices.Equal(ran, want) {
		t.Errorf("these tools ran: %q, want each once and in order: %q", ran, want)
	}
	if refused := p.model.Refused(); len(refused) > 0 {
		t.Errorf("the model refused requests:\n%s", strings.Join(refused, "\n"))
	}
	if n := p.model.Answered(); n != len(p.steps) {
		t.Errorf("the model has answered %d of %d steps", n, len(p.steps))
	}
}

// approve waits for the call that needs a person and approves it, as an approver.
func (p *play) approve(t *testing.T, a *process) {
	t.Helper()
	c, err := toold.Dial("unix:"+p.socket, toold.WithToken(approver))
	must(t, err)
	defer c.Close()
	var waiting *tooldv1.Call
	a.await(t, "a call that waits for a person", func() bool {
		for call, err := range c.Waiting(t.Context(), &tooldv1.ListCallsRequest{}) {
			must(t, err)
			waiting = call
		}
		return waiting != nil
	})
	a.awaitText(t, "toold approve "+waiting.GetSuspension().GetSuspensionId())
	events, err := c.Resume(t.Context(), waiting, &tooldv1.Decision{})
	must(t, err)
	for _, err := range events {
		must(t, err)
	}
}

func readStory(t *testing.T) []model.Step {
	t.Helper()
	f, err := os.Open("testdata/story.jsonl")
	must(t, err)
	defer f.Close()
	steps, err := model.Read(f)
	must(t, err)
	return steps
}
