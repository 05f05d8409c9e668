package daemon

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// TestClientTranscript checks that the clients of all languages behave in the same way with the same daemon. The test kills the daemon in
// the middle.
func TestClientTranscript(t *testing.T) {
	inEach(t, func(t *testing.T, l language) {
		playTranscript(t, "client.jsonl", func(address string) *exec.Cmd { return l.client(t, address) })
	})
}

// TestAgentTranscript is like TestClientTranscript, for toolsets, turns and the inbox.
func TestAgentTranscript(t *testing.T) {
	inEach(t, func(t *testing.T, l language) {
		if l.agent != nil {
			playTranscript(t, "agent.jsonl", func(address string) *exec.Cmd { return l.agent(t, address) })
		}
	})
	t.Run("python-asyncio", func(t *testing.T) {
		playTranscript(t, "agent.jsonl", func(address string) *exec.Cmd {
			return pythonSDK(t, "../sdk/python/tests/transcript_agent_aio.py", address)
		})
	})
}

// playTranscript compares the lines that a client prints with a transcript. At the line of the call that the client watches, it kills the
// daemon, starts the next daemon, and answers the question of this call there.
func playTranscript(t *testing.T, transcript string, start func(address string) *exec.Cmd) {
	text, err := os.ReadFile("../sdk/testdata/" + transcript)
	must(t, err)
	s := newSite(t, "")
	p := s.start("--workers-lease", "2s")
	p.worker(languages()[0], "unix:"+p.ready.Unix, "")
	client := start("unix:" + p.ready.Unix)
	client.Stderr = p.log
	out, err := client.StdoutPipe()
	must(t, err)
	must(t, client.Start())
	t.Cleanup(func() { _ = client.Process.Kill(); _ = client.Wait() })
	lines := bufio.NewScanner(out)
	for want := range strings.Lines(string(text)) {
		if !lines.Scan() {
			t.Fatalf("nothing where %s was to come\n%s", want, p.log)
		}
		var got, wanted map[string]any
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		must(t, json.Unmarshal([]byte(want), &wanted))
		watched, _ := got["call_id"].(string)
		delete(got, "call_id") // a random id
		if got["step"] == "watching" {
			watched = "watched-over-a-kill"
		}
		if a, b := comparable(t, got), comparable(t, wanted); a != b {
			t.Errorf("got  %s\nwant %s\n%s", a, b, p.log)
		}
		if watched != "" {
			p.kill()
			p = s.start("--workers-lease", "2s")
			p.paint(watched)
		}
	}
	if err := client.Wait(); err != nil {
		t.Errorf("%v\n%s", err, p.log)
	}
}

// paint answers the open question of a call.
func (p *proc) paint(id string) {
	p.t.Helper()
	r, err := p.calls.GetCall(p.t.Context(), &tooldv1.GetCallRequest{CallId: id})
	must(p.t, err)
	resumed, err := p.calls.ResumeTool(p.t.Context(), &tooldv1.ResumeToolRequest{SuspensionId: r.GetCall().GetSuspension().GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: "decision-of-" + id, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Result: `"blue"`,
	}})
	for err == nil {
		_, err = resumed.Recv()
	}
}

// TestSDKUnits runs the unit tests of the SDKs in other languages.
func TestSDKUnits(t *testing.T) {
	for _, l := range languages() {
		if l.units == nil {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			if out, err := l.units(t).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func pythonSDK(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if out, err := exec.Command("../sdk/python/generate.sh").CombinedOutput(); err != nil {
		t.Fatalf("generate.sh: %v\n%s", err, out)
	}
	return exec.Command("/usr/bin/python3", append([]string{"-B"}, args...)...) // Debian's Python, for which the packages are installed
}

// needNode skips a test on a machine without Node or without the packages that a script fetches. CI refuses a run that skipped tests.
func needNode(t *testing.T, packages, script string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skipf("it needs Node 20 or later: %v", err)
	}
	if _, err := os.Stat(packages); err != nil {
		t.Skipf("it needs packages from npm; run %s: %v", script, err)
	}
}

func typescriptSDK(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	needNode(t, "../sdk/typescript/node_modules", "sdk/typescript/build.sh")
	if out, err := exec.Command("../sdk/typescript/build.sh").CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	return exec.Command("node", append([]string{"../sdk/typescript/dist/tests/" + program}, args...)...)
}
