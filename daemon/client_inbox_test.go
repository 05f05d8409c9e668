package daemon

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestInboxOfSDKs checks the inbox of an approver, who has no right to watch the namespace. It shows each question once, without polling, also
// when the daemon is killed. It does not show a question that was decided elsewhere.
func TestInboxOfSDKs(t *testing.T) {
	t.Run("python", func(t *testing.T) {
		playInbox(t, func(address string) *exec.Cmd {
			return pythonSDK(t, "../sdk/python/tests/transcript_inbox.py", address)
		})
	})
	t.Run("python-asyncio", func(t *testing.T) {
		playInbox(t, func(address string) *exec.Cmd {
			return pythonSDK(t, "../sdk/python/tests/transcript_inbox.py", address, "aio")
		})
	})
	t.Run("typescript", func(t *testing.T) {
		playInbox(t, func(address string) *exec.Cmd { return typescriptSDK(t, "transcript_inbox.js", address) })
	})
}

func playInbox(t *testing.T, start func(address string) *exec.Cmd) {
	s := newSite(t, "")
	p := s.start("--metrics-listen", "127.0.0.1:0")
	token, _ := p.create(&tooldv1.CreateTokenRequest{Name: "ann", Subject: "ann", Roles: []tooldv1.Role{tooldv1.Role_ROLE_APPROVER}})
	x := startInbox(t, p, start("unix:"+p.ready.Unix), token)

	a := p.ask("write", `{"path":"a","content":"a"}`)
	x.next()
	x.shows("a question that waits", a)
	x.next()
	p.watched()
	b := p.ask("write", `{"path":"b","content":"b"}`)
	x.shows("a new question", b)
	p.decide(p.ask("write", `{"path":"c","content":"c"}`), tooldv1.DecisionAction_DECISION_ACTION_RESUME)
	d := p.ask("write", `{"path":"d","content":"d"}`)
	x.next()
	x.shows("the question after one that was decided elsewhere", d)
	x.next()
	eventually(t, "the inbox has listed the calls three times, which needs no polling", func() bool {
		return scrape(t, p)[`toold_requests_total{method="/toold.v1.CallService/ListCalls",code="OK"}`] == 3
	})

	p.kill() // while the inbox waits for a question
	p = s.start("--metrics-listen", "127.0.0.1:0")
	p.decide(a, tooldv1.DecisionAction_DECISION_ACTION_CANCEL)
	e := p.ask("write", `{"path":"e","content":"e"}`)
	x.shows("the first question after a kill", e)

	p.decide(p.ask("write", `{"path":"f","content":"f"}`), tooldv1.DecisionAction_DECISION_ACTION_RESUME)
	g := p.ask("write", `{"path":"g","content":"g"}`)
	p.kill() // while nobody reads the inbox
	p = s.start("--metrics-listen", "127.0.0.1:0")
	h := p.ask("write", `{"path":"h","content":"h"}`)
	x.next()
	x.shows("a question from before a kill", g)
	x.next()
	x.shows("a question from after a kill", h)
	x.next()
	p.watched()
	x.shows("a new question after two kills", p.ask("write", `{"path":"i","content":"i"}`))
}

// watched waits until an inbox follows the daemon.
func (p *proc) watched() {
	p.t.Helper()
	eventually(p.t, "an inbox follows the daemon", func() bool { return scrape(p.t, p)["toold_watchers"] == 1 })
}

// inboxProgram is a program that prints the id of the next call in its inbox for each line that it reads.
type inboxProgram struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
	log *logBuffer
}

func startInbox(t *testing.T, p *proc, cmd *exec.Cmd, token string) *inboxProgram {
	t.Helper()
	x := &inboxProgram{t: t, log: p.log}
	cmd.Env, cmd.Stderr = append(os.Environ(), "TOOLD_TEST_TOKEN="+token), p.log
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	late := time.AfterFunc(hangs, func() { _ = cmd.Process.Kill() }) // A program that waits for a call that never comes must not block the test.
	t.Cleanup(func() { late.Stop(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	x.in, x.out = in, bufio.NewScanner(out)
	return x
}

func (x *inboxProgram) next() {
	x.t.Helper()
	_, err := io.WriteString(x.in, "next\n")
	must(x.t, err)
}

func (x *inboxProgram) shows(what string, want *tooldv1.Call) {
	x.t.Helper()
	if !x.out.Scan() || x.out.Text() != want.GetCallId() {
		x.t.Fatalf("%s: got %q, want %s\n%s", what, x.out.Text(), want.GetCallId(), x.log)
	}
}
