package daemon

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const callWaits = tooldv1.CallStatus_CALL_STATUS_SUSPENDED

// ask starts a call that is suspended with a question.
func (p *proc) ask(tool, arguments string) *tooldv1.Call {
	p.t.Helper()
	c := p.callTool(tool, arguments)
	if c.GetStatus() != callWaits {
		p.t.Fatalf("%s is %v: %v", tool, c.GetStatus(), c.GetResult())
	}
	return c
}

// became waits for the end of a call and returns it.
func (p *proc) became(c *tooldv1.Call) (ended *tooldv1.Call) {
	p.t.Helper()
	eventually(p.t, "the end of "+c.GetTool(), func() bool {
		got, err := p.calls.GetCall(within(p.t), &tooldv1.GetCallRequest{CallId: c.GetCallId()})
		must(p.t, err)
		ended = got.GetCall()
		return ended.GetEndedAt() != nil
	})
	return ended
}

func (s *site) file(name string) string {
	b, err := os.ReadFile(filepath.Join(s.workspace, name))
	if err != nil {
		return "no file"
	}
	return string(b)
}

// TestInbox answers ten waiting calls with the keyboard. The test acts as a user who follows the hints at the bottom of the screen.
func TestInbox(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	must(t, os.WriteFile(filepath.Join(s.workspace, "app.txt"), []byte("one\ntwo\nthree\n"), 0o600))
	p.callTool("read", `{"path":"app.txt"}`)
	run := &tooldv1.Run{RunId: "r-1", ThreadId: "t-1"}
	p.inRun(run, "read", `{"path":"app.txt"}`)
	calls := []*tooldv1.Call{
		p.ask("write", `{"path":"one.txt","content":"first\n"}`),
		p.ask("write", `{"path":"two.txt","content":"second\n"}`),
		p.ask("write", `{"path":"three.txt","content":"third\n"}`),
		p.ask("ask_user", `{"question":"What is it called?"}`),
		p.ask("ask_user", `{"question":"Which colour?","options":["red","green","blue"]}`),
		p.ask("ask_user", `{"question":"Who?","schema":{"type":"object","properties":{"age":{"type":"integer","title":"Age in years"},"name":{"type":"string"},"sure":{"type":"boolean"}},"required":["name","sure"]}}`),
		p.ask("bash", `{"command":"echo hi > shell.txt"}`),
		p.inRun(run, "edit", `{"path":"app.txt","old_text":"two","new_text":"2\u001b[2J"}`),
		p.ask("write", `{"path":"evil.txt","content":"\u001b]0;owned\u0007\u202egnp.exe"}`),
		p.ask("write", `{"path":"ten.txt","content":"tenth\n"}`),
	}
	x := s.terminal(t, 80, 24, []string{"EDITOR=sed -i s/third/3rd/"}, "inbox")
	x.expect("toold inbox  10 wait", "▸ approval  write", "one.txt", "first", "a approve", "e edit", "d decline", "q quit")

	x.press("c")
	x.expect("write: you look at it; others see that", "(local looks at it)")

	x.press("a")
	x.expect("Approve", "y yes")
	x.press("y")
	x.expect("9 wait, 1 decided here", "write: SUCCEEDED", "two.txt")

	x.press("d")
	x.expect("why? The model reads it.", "reason:")
	x.press("not thix\x7fs\x1b[200~ pasted y\x1b[201~")
	x.expect("reason: not this pasted y")
	x.press("\r")
	x.expect("8 wait, 2 decided here", "write: CANCELLED", "third")

	x.press("e")
	x.expect("Approve with these arguments?", "Instead, as you edited it", "3rd")
	x.press("y")
	x.expect("7 wait", "write: SUCCEEDED", "a answer", "What is it called?")

	x.press("a")
	x.expect("text:")
	x.press("Größe 1\r")
	x.expect("6 wait", "ask_user: SUCCEEDED", "Which colour?")

	x.press("a")
	x.expect("1  red", "3  blue", "a number:")
	x.press("7\r")
	x.expect("choose one of 1 to 3")
	x.press("\x152\r") // Ctrl-U deletes the line
	x.expect("5 wait", "ask_user: SUCCEEDED", "Who?")

	x.press("a")
	x.expect("Age in years", "age (integer, or nothing):")
	x.press("\r")
	x.expect("name (text):")
	x.press("Ada\r")
	x.expect("sure (y or n):")
	x.press("y\r")
	x.expect("4 wait", "ask_user: SUCCEEDED", "echo hi")

	x.press("j")
	x.expect("▸ approval  edit")
	x.press("\r")
	x.expect("APPROVAL  Edit app.txt", "enter back", "-two", `+2\x1b[2J`)
	x.press(" ")
	x.expect("suspension", "answered by")
	x.press("\rk")
	x.expect("▸ approval  bash")
	x.press("ay")
	x.expect("3 wait", "bash: SUCCEEDED", "▸ approval  edit")
	x.press("ay")
	x.expect("2 wait", "edit: SUCCEEDED", `\x1b]0;owned\x07\u202egnp.exe`)
	x.press("d\r")
	x.expect("1 waits", "write: CANCELLED", "ten.txt")

	// Another client cancels the call first. The call stays on the screen but cannot be decided.
	_, err := p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: calls[9].GetCallId(), Wait: durationpb.New(0)})
	must(t, err)
	x.expect("another person decided this", "▸ gone")
	x.press("a")
	x.expect("no longer suspended")
	fails := p.ask("bash", `{"command":"no-such-program > here.txt"}`)
	x.expect("no-such-program")
	x.press("j")
	x.awaitAbsent("gone")
	x.press("ay")
	x.expect("bash: SUCCEEDED, exit code 127")
	if got := p.became(fails).GetStatus(); got != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("the call is %v", got)
	}
	late := p.ask("write", `{"path":"late.txt","content":"late\n"}`)
	x.expect("▸ approval  write", "late.txt", "1 waits, 10 decided here")
	x.press("q")
	if code := x.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	x.isRestored()
	if !x.colors["32"] || !x.colors["31"] {
		t.Errorf("the diff has the colours %v", x.colors)
	}

	want := []string{"SUCCEEDED", "CANCELLED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED", "CANCELLED", "CANCELLED"}
	for i, c := range calls {
		if got := p.became(c); got.GetStatus().String() != "CALL_STATUS_"+want[i] {
			t.Errorf("call %d, %s, is %v: %v", i+1, c.GetTool(), got.GetStatus(), got.GetResult())
		}
	}
	for name, text := range map[string]string{"one.txt": "first\n", "two.txt": "no file", "three.txt": "3rd\n", "shell.txt": "hi\n", "app.txt": "one\n2\x1b[2J\nthree\n", "evil.txt": "no file", "ten.txt": "no file", "late.txt": "no file"} {
		if got := s.file(name); got != text {
			t.Errorf("%s is %q, want %q", name, got, text)
		}
	}
	if got := p.became(calls[1]).GetResult().GetError().GetMessage(); got != "Declined: not this pasted y" {
		t.Errorf("the model reads %q", got)
	}
	for i, want := range map[int]string{3: `"Größe 1"`, 4: `"green"`, 5: `{"name":"Ada","sure":true}`} {
		if got := p.became(calls[i]).GetResult().GetData(); got != want {
			t.Errorf("answer %d is %s, want %s", i+1, got, want)
		}
	}
	if c, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: late.GetCallId()}); err != nil || c.GetCall().GetStatus() != callWaits {
		t.Errorf("the last one: %v %v", c, err)
	}
}

// inRun calls a tool in a run, so that the thread remembers which files were read.
func (p *proc) inRun(run *tooldv1.Run, tool, arguments string) *tooldv1.Call {
	p.t.Helper()
	got, err := p.calls.CallTool(within(p.t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: tool, Arguments: arguments, Run: run}})
	must(p.t, err)
	return got.GetCall()
}

// The inbox fits small terminals and follows size changes. It restores the terminal after every kind of exit.
func TestInboxTerminal(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	p.ask("write", `{"path":"a.txt","content":"`+strings.Repeat("wide 宽字 text\\t", 200)+`"}`)
	p.ask("write", `{"path":"b.txt","content":"b"}`)
	x := s.terminal(t, 80, 24, nil, "inbox")
	x.expect("2 wait", "a.txt")
	for _, size := range [][2]int{{40, 10}, {20, 6}, {200, 60}, {12, 4}, {80, 24}} {
		x.resize(size[0], size[1])
		must(t, x.cmd.Process.Signal(syscall.SIGWINCH)) // Send the signal again, in case the process missed the one from the kernel.
		if size[0] < 40 {
			x.expect("toold: too")
		} else {
			x.expect("toold inbox", "select")
		}
		if size[0] < 40 {
			continue
		}
		for _, keys := range []string{"  ", "\r", "J", "a", "n", "?", "?", "\r", "d"} {
			x.press(keys)
		}
		x.expect("reason:")
		x.press("\x1b")
		x.expect("nothing was decided")
	}
	x.expect("2 wait")
	x.press("\x03")
	if code := x.end(); code != 0 {
		t.Errorf("ctrl-c: exit code %d", code)
	}
	x.isRestored()

	x = s.terminal(t, 80, 24, nil, "inbox")
	x.expect("2 wait")
	must(t, x.cmd.Process.Signal(syscall.SIGTERM))
	x.end()
	x.isRestored()

	if r := new(run).do(t, s.data, "inbox"); r.code != 0 || !strings.Contains(r.out, "toold approve ") || strings.Contains(r.out, "\x1b") {
		t.Errorf("without a terminal: %d\n%s", r.code, r.out)
	}
	x = s.terminal(t, 80, 24, nil, "inbox", "--list")
	x.end()
	if out := x.text(); !strings.Contains(out, "approve ") {
		t.Errorf("--list shows\n%s", out)
	}
}

// The inbox reports a lost connection and reconnects.
func TestInboxLosesTheDaemon(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	p.ask("write", `{"path":"a.txt","content":"a"}`)
	x := s.terminal(t, 80, 24, nil, "inbox")
	x.expect("1 waits", "a.txt")
	p.kill()
	x.press("r")
	x.expect("connection")
	x.press("ay")
	x.expect("write: ")
	s.start()
	x.expect("connected to the daemon again")
	x.press("ay")
	x.expect("0 wait, 1 decided here", "write: SUCCEEDED")
	x.press("q")
	x.end()
	if got := s.file("a.txt"); got != "a" {
		t.Errorf("a.txt is %q", got)
	}
}

// TestInboxKeepsAndVotes checks that a user can remember an approval, with an option of the ticket and a scope. It also checks a question
// that needs two votes: each user votes once, and the call then leaves the list of that user.
func TestInboxKeepsAndVotes(t *testing.T) {
	s := newSite(t, "rules: [{action: ask, tools: [bash], count: 2}]")
	dir := filepath.Dir(s.data)
	config := "auth:\n  tokens:\n"
	for _, name := range []string{"bob", "carol"} {
		token := strings.Repeat(name, 10)
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(token), 0o600))
		config += fmt.Sprintf("    - {name: %s, roles: [approver], hash: %q}\n", name, "sha256:"+fmt.Sprintf("%x", sha256.Sum256([]byte(token))))
	}
	must(t, os.WriteFile(filepath.Join(dir, "toold.yaml"), []byte(config), 0o600))
	p := s.start("--config", filepath.Join(dir, "toold.yaml"))
	as := func(name string) *pty {
		return s.terminal(t, 80, 24, []string{"TOOLD_ADDRESS=" + p.ready.TCP, "TOOLD_TOKEN_FILE=" + filepath.Join(dir, name)}, "inbox")
	}
	run := &tooldv1.Run{RunId: "run-1", ThreadId: "thread-1"}
	kept := p.inRun(run, "write", `{"path":"src/a.txt","content":"a"}`)
	both := p.ask("bash", `{"command":"echo both > both.txt"}`)
	bob := as("bob")
	bob.expect("2 wait", "src/a.txt", "0 of 2 votes")
	bob.press("a")
	bob.expect("Approve", "1  yes, and for a day also calls with exactly these arguments", "2  yes, and for a day also calls for anything in src", "1-2 approve and remember")
	bob.press("3")
	bob.press("2")
	bob.expect("for which calls?", "r  calls of the run run-1", "t  calls of the thread thread-1", "w  calls of the whole namespace")
	bob.press("n") // The inbox asks for the scope of the rule. The key n cancels, so nothing is decided.
	bob.expect("nothing was decided")
	bob.press("a")
	bob.expect("approve and remember")
	bob.press("2")
	bob.expect("for which calls?")
	bob.press("t")
	bob.expect("1 waits, 1 decided here", "write: SUCCEEDED")
	bob.press("a")
	bob.expect("0 of 2 votes. ", "Approve")
	bob.press("y")
	bob.expect("0 wait, 2 decided here", "bash: 1 of 2 votes; another approver must vote")
	bob.press("q")
	bob.end()
	if c := p.became(kept); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("the call is %v", c)
	}
	if c := p.inRun(&tooldv1.Run{RunId: "run-2", ThreadId: "thread-1"}, "write", `{"path":"src/b.txt","content":"b"}`); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("a call like it, in the thread: %v", c)
	}
	if c := p.inRun(&tooldv1.Run{RunId: "run-1", ThreadId: "thread-2"}, "write", `{"path":"src/c.txt","content":"c"}`); c.GetStatus() != callWaits {
		t.Errorf("a call like it, in another thread: %v", c)
	}
	carol := as("carol")
	carol.expect("2 wait", "1 of 2 votes")
	carol.press("ay")
	carol.expect("1 waits, 1 decided here", "bash: SUCCEEDED")
	carol.press("q")
	carol.end()
	if c := p.became(both); s.file("both.txt") != "both\n" || len(c.GetDecisions()) != 1 {
		t.Errorf("%q, %v", s.file("both.txt"), c)
	}
}

// While the editor runs, only the editor gets Ctrl-C. toold continues.
func TestEditorInterrupted(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	first := p.ask("write", `{"path":"a.txt","content":"first"}`)
	editor := filepath.Join(filepath.Dir(s.data), "editor")
	saves := "#!/bin/sh\ntrap 'sed -i s/first/changed/ \"$1\"; exit 0' INT\necho the editor is open\nwhile :; do sleep 0.05; done\n"
	must(t, os.WriteFile(editor, []byte(saves), 0o700))
	environ := []string{"EDITOR=" + editor}
	x := s.terminal(t, 80, 24, environ, "approve", "--edit", first.GetCallId())
	x.expect("the editor is open")
	x.press("\x03")
	x.expect("Approve with these arguments? [y/N]")
	x.press("y\n")
	if code := x.end(); code != 0 || s.file("a.txt") != "changed" {
		t.Errorf("exit code %d, a.txt is %q\n%s", code, s.file("a.txt"), x.text())
	}
	p.ask("write", `{"path":"b.txt","content":"second"}`)
	must(t, os.WriteFile(editor, []byte("#!/bin/sh\ntrap 'sleep 0.1; exit 3' INT\necho the editor is open\nwhile :; do sleep 0.05; done\n"), 0o700))
	x = s.terminal(t, 80, 24, environ, "inbox")
	x.expect("1 waits")
	x.press("e")
	x.expect("the editor is open")
	x.press("\x03")
	x.expect("1 waits", "exit status 3")
	x.press("\x03") // now toold gets the key
	if code := x.end(); code != 0 {
		t.Errorf("exit code %d\n%s", code, x.text())
	}
	x.isRestored()
}
