package daemon

import (
	"context"
	"strings"
	"testing"

	"github.com/toold-dev/toold/cli"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// The terminal shows a run as a tree that follows its calls. The tree stays on the screen when the run ends.
func TestWatchTree(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	root := p.inRun(&tooldv1.Run{RunId: "r-1"}, "write", `{"path":"a\u001b[2J.txt","content":"a"}`)
	x := s.terminal(t, 60, 12, nil, "watch", "--run", "r-1")
	x.expect("run r-1  1 wait", "└─ ? write  waits for a decision", `a\x1b[2J.txt`)
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	child := &tooldv1.CallSpec{Tool: "bash", Arguments: `{"command":"touch begun; sleep 60"}`, Run: &tooldv1.Run{RunId: "r-1", ParentCallId: root.GetCallId()}}
	asked, err := p.calls.CallTool(ctx, &tooldv1.CallToolRequest{Spec: child})
	must(t, err)
	x.expect("2 wait", "   └─ ? bash")
	approve := func(c *tooldv1.Call, id string) {
		stream, err := p.calls.ResumeTool(ctx, &tooldv1.ResumeToolRequest{SuspensionId: c.GetSuspension().GetSuspensionId(), Decision: &tooldv1.Decision{
			DecisionId: id, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, ExpectedDigest: c.GetSuspension().GetDigest(),
		}})
		must(t, err)
		_, err = stream.Recv()
		must(t, err)
	}
	approve(asked.GetCall(), "decision-0000000001")
	x.expect("1 run, 1 wait", "● bash")
	approve(root, "decision-0000000002")
	x.expect("1 run, 1 succeeded", "└─ ✓ write")
	p.inRun(&tooldv1.Run{RunId: "r-1"}, "glob", `{"pattern":"*"}`)
	x.expect("├─ ✓ write", "│  └─ ● bash", "└─ ✓ glob")
	x.resize(40, 4)
	x.expect("run r-1", "⋮ 2 above", "✓ glob")
	x.resize(80, 24)
	_, err = p.calls.CancelCall(ctx, &tooldv1.CancelCallRequest{CallId: asked.GetCall().GetCallId()})
	must(t, err)
	x.expect("2 succeeded, 1 cancelled", "– bash", "CANCELLED")
	x.press("\x03")
	if code := x.end(); code != cli.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(x.text(), "– bash") {
		t.Errorf("nothing is left\n%s", x.text())
	}

	r := new(run).do(t, s.data, "watch", "--run", "r-1", "--tree", "--no-follow")
	if lines := strings.Split(strings.TrimSpace(r.out), "\n"); r.code != 0 || len(lines) != 4 || !strings.HasPrefix(lines[2], "│  └─ – bash") || strings.Contains(r.out, "\x1b") {
		t.Errorf("%d: %s%s", r.code, r.out, r.err)
	}
	for _, args := range [][]string{{"watch", "--run", "r-1", "--tree"}, {"watch", "--all", "--tree"}, {"watch", "--run", "r-1", "--tree", "--lines"}} {
		if r := new(run).do(t, s.data, args...); r.code != cli.ExitUsage {
			t.Errorf("%q: exit code %d", args, r.code)
		}
	}
}
