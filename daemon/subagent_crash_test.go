package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tools/subagent/subagenttest"
)

// TestSubagentContinuesAfterACrash kills or stops the daemon while a subagent waits for its model or for a tool. The next daemon continues the
// subagent where it stopped. It repeats no finished turn and runs no tool twice. If a tool ran when the daemon died, the model is informed
// that the outcome of the tool is unknown.
func TestSubagentContinuesAfterACrash(t *testing.T) {
	var times [4]atomic.Int32
	hang, release := make(chan int, 4), make(chan struct{})
	m := newModel(t, func(q *subagenttest.Question) subagenttest.Reply {
		turn := q.Turns()
		if n := times[turn].Add(1); n == 1 && turn != 0 {
			hang <- turn
			<-release
		}
		command := func(text string) subagenttest.Reply {
			return subagenttest.Reply{Calls: []subagenttest.Call{{ID: "x", Name: "bash", Arguments: fmt.Sprintf(`{"command":%q}`, text)}}}
		}
		switch turn {
		case 0:
			return command("echo one >> done.txt")
		case 1:
			return command("echo two >> done.txt; sleep 60")
		case 2:
			return command("echo three >> done.txt")
		}
		var texts []string
		for _, m := range q.Messages {
			for _, r := range m.Results {
				texts = append(texts, r.Text)
			}
		}
		return subagenttest.Reply{Text: strings.Join(texts, " | ")}
	})
	t.Cleanup(func() { close(release) })
	s := newSite(t, "rules:\n  - {action: allow, tools: [helper, bash]}\n")
	flags := append(s.withSubagents(m, "openai"), "--bash-profile", "none", "--timeouts-drain", "50ms")
	done := func() string {
		b, _ := os.ReadFile(filepath.Join(s.workspace, "done.txt"))
		return string(b)
	}
	hangs := func(want int) {
		t.Helper()
		select {
		case turn := <-hang:
			if turn != want {
				t.Fatalf("the model is asked for turn %d, not %d", turn, want)
			}
		case <-within(t).Done():
			t.Fatalf("turn %d is not asked for", want)
		}
	}
	p := s.start(flags...)
	_, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{
		Spec: &tooldv1.CallSpec{Tool: "helper", CallId: "subagent-crash-001", Arguments: `{"task":"three things"}`}, Wait: durationpb.New(time.Millisecond),
	})
	must(t, err)
	hangs(1)
	p.kill() // while the subagent waits for the model
	p = s.start(flags...)
	eventually(t, "the second command runs", func() bool { return done() == "one\ntwo\n" })
	p.kill() // while a tool runs
	p = s.start(flags...)
	hangs(2)
	p.kill()
	p = s.start(flags...)
	hangs(3)
	must(t, p.cmd.Process.Signal(syscall.SIGTERM)) // while the subagent waits for the model; the subagent suspends itself
	<-p.ended
	p = s.start(flags...)
	got := p.get("subagent-crash-001")
	text := got.GetResult().GetMessage()
	if got.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || !strings.Contains(text, "not known whether this ran") {
		t.Errorf("it ended with %v", got)
	}
	if done() != "one\ntwo\nthree\n" {
		t.Errorf("the commands did %q", done())
	}
	for turn, want := range []int32{1, 2, 2, 2} {
		if n := times[turn].Load(); n != want {
			t.Errorf("turn %d was asked for %d times, not %d", turn, n, want)
		}
	}
	if calls := p.children(got.GetResult().GetMetadata()["run_id"]); len(calls) != 3 {
		t.Errorf("its run has %d calls", len(calls))
	}
}

// TestCancelOfASubagentOverAKill checks the cancellation of a waiting subagent. The daemon stores the cancellation before it responds, and
// is killed right after the response. At that time, a call of the subagent still ignores its cancellation. The next daemon ends each call
// once, and does not ask the model again.
func TestCancelOfASubagentOverAKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "held")
	m := newModel(t, func(q *subagenttest.Question) subagenttest.Reply {
		if q.Turns() > 0 {
			return subagenttest.Reply{Text: "done all the same"}
		}
		return subagenttest.Reply{Calls: []subagenttest.Call{
			{ID: "a", Name: "held", Arguments: fmt.Sprintf(`{"file":%q}`, file)}, {ID: "b", Name: "bash", Arguments: `{"command":"true"}`},
		}}
	})
	s := newSite(t, "rules:\n  - {action: allow, tools: [helper]}\n  - {action: ask, tools: [held, bash]}\n")
	flags := append(s.withSubagents(m, "openai"), "--bash-profile", "none", "--timeouts-grace", "10s")
	p := s.start(flags...)
	worker := p.worker(languages()[0], "unix:"+p.ready.Unix, "")
	const id = "subagent-cancel-kill-1"
	p.subagent(id, "hold on")
	run := p.runBelow(id)
	asked := p.waitingIn(run)["held"].GetSuspension()
	_, err := p.calls.ResumeTool(within(t), &tooldv1.ResumeToolRequest{SuspensionId: asked.GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: "decision-to-hold-on", Action: yes, ExpectedDigest: asked.GetDigest(),
	}})
	must(t, err)
	awaitLines(t, file, 1)
	must(t, worker.Process.Signal(syscall.SIGSTOP))
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second) // shorter than the 12 seconds that the call may take to end
	defer stop()
	got, err := p.calls.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: id, Reason: "enough"})
	p.kill()
	must(t, err)
	if c := got.GetCall(); c.GetCancelRequest().GetReason() != "enough" {
		t.Errorf("the answer is %v", c)
	}
	p = s.start(flags...)
	ids := []string{id}
	for _, c := range p.children(run) {
		ids = append(ids, c.GetCallId())
	}
	if len(ids) != 3 {
		t.Errorf("its run has %d calls", len(ids)-1)
	}
	for _, id := range ids {
		c := p.get(id)
		if c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_CANCELLED || c.GetCancelRequest().GetReason() != "enough" {
			t.Errorf("it ended with %v", c)
		}
		stream, err := p.calls.WatchCalls(within(t), &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_CallId{CallId: id}, Cursor: "c1.1.0"})
		log := follow(t, stream, err)
		log.last(t)
		if n := log.count(func(e *tooldv1.CallEvent) bool { return e.GetFinished() != nil }); n != 1 {
			t.Errorf("%s has %d results", c.GetTool(), n)
		}
	}
	if asked, _ := m.Asked(); len(asked) != 1 {
		t.Errorf("the model was asked %d times", len(asked))
	}
}
