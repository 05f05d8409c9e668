package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const allowAll = "rules:\n  - {name: all, action: allow, tools: ['*']}\n"

// inThread returns a call in the thread that all background tests share.
func inThread(id, tool string, args map[string]any) *tooldv1.CallSpec {
	text, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return &tooldv1.CallSpec{Tool: tool, CallId: id, Arguments: string(text), Run: &tooldv1.Run{RunId: "run-1", ThreadId: "thread-1"}}
}

func (p *proc) do(spec *tooldv1.CallSpec) *tooldv1.Call {
	p.t.Helper()
	r, err := p.calls.CallTool(within(p.t), &tooldv1.CallToolRequest{Spec: spec})
	must(p.t, err)
	return r.GetCall()
}

// stray starts a background shell, which starts a process that detaches itself and keeps running. It returns the pid of that process.
func (p *proc) stray(s *site, id string) int {
	p.t.Helper()
	name := filepath.Join(s.workspace, id)
	c := p.do(inThread(id, "bash", map[string]any{"background": true, "command": `(setsid bash -c 'trap "" TERM HUP; echo $$ > ` + id +
		`; sleep 1000' >/dev/null 2>&1 </dev/null &); until [ -s ` + id + ` ]; do sleep 0.01; done; sleep 1000`}))
	if c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || !strings.Contains(c.GetResult().GetMessage(), "in the background as shell sh-") {
		p.t.Fatalf("background: %v %v", c.GetStatus(), c.GetResult())
	}
	var pid int
	eventually(p.t, "the daemon of "+id, func() bool {
		b, _ := os.ReadFile(name)
		n, _ := fmt.Sscan(string(b), &pid)
		return n == 1 && strings.HasSuffix(string(b), "\n")
	})
	return hostPID(p.t, id, pid)
}

// running reports whether a process is alive. A zombie (an ended process that its parent has not reaped) does not count as alive.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// P5: no background process outlives the end of its run, the daemon's drain, or a start after kill -9.
func TestBackgroundShellsEnd(t *testing.T) {
	s := newSite(t, allowAll)
	p := s.start()
	pid := p.stray(s, "background-of-run")
	_, err := p.calls.EndRun(within(t), &tooldv1.EndRunRequest{RunId: "run-1"})
	must(t, err)
	eventually(t, "the end of a shell whose run ended", func() bool { return !running(pid) })

	pid = p.stray(s, "background-of-drain")
	p.signal(syscall.SIGTERM)
	if took := p.wait(hangs); p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit %d after %v\n%s", p.cmd.ProcessState.ExitCode(), took, p.log)
	}
	if running(pid) {
		t.Error("a shell in the background outlived the daemon's drain")
	}

	p = s.start()
	pid = p.stray(s, "background-of-crash")
	must(t, p.cmd.Process.Signal(syscall.SIGKILL))
	<-p.ended
	p = s.start()
	if running(pid) {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		t.Errorf("a shell in the background runs after kill -9 and a new start: %s\n%s", stat, p.log)
	}
	c := p.do(inThread("list-after-crash-1", "bash_output", map[string]any{}))
	if got := c.GetResult().GetMessage(); !strings.Contains(got, "no background shells") {
		t.Errorf("shells after kill -9: %q", got)
	}
}

// TestTypeAndPage checks that input of a caller reaches the terminal of its call. It also checks that a model that got only the beginning
// and the end of an output can read the rest page by page.
func TestTypeAndPage(t *testing.T) {
	s := newSite(t, allowAll)
	p := s.start()
	id := "typed-into-0000001"
	spec := inThread(id, "bash", map[string]any{"pty": map[string]any{}, "command": "stty -echo; echo ready; read n; seq $n; echo error: 42 >&2; seq 20000 40000"})
	stream, err := p.calls.ExecuteTool(within(t), &tooldv1.ExecuteToolRequest{Spec: spec})
	events := follow(t, stream, err)
	eventually(t, "the prompt", func() bool {
		return events.has(func(e *tooldv1.CallEvent) bool { return strings.Contains(string(e.GetOutput().GetData()), "ready") })
	})
	at := int64(0)
	for range 2 { // the second request repeats the first
		r, err := p.calls.SendInput(within(t), &tooldv1.SendInputRequest{CallId: id, Data: []byte("20000\n"), Position: &at})
		if err != nil && status.Code(err) != codes.FailedPrecondition { // the call may have ended already
			t.Fatal(err)
		}
		if err == nil && r.GetPosition() != 6 {
			t.Errorf("position %d", r.GetPosition())
		}
	}
	events.last(t)
	message := p.do(spec).GetResult().GetMessage()
	_, rest, _ := strings.Cut(message, "the full text is ")
	handle, _, _ := strings.Cut(rest, " ")
	if handle != "artifact://"+id+"/pty" {
		t.Fatalf("no handle in %.200q", message)
	}
	for args, want := range map[string]string{`{"offset": 19999, "limit": 2}`: " 19999\t19998\n 20000\t19999", `{"search": "error: \\d+"}`: "20002\terror: 42"} {
		var m map[string]any
		must(t, json.Unmarshal([]byte(args), &m))
		m["path"] = handle
		c := p.do(inThread("page-"+fmt.Sprintf("%012d", len(args)), "read", m))
		if got := c.GetResult().GetMessage(); !strings.Contains(got, want) {
			t.Errorf("read %s: %q, want %q", args, got, want)
		}
	}
}

// TestT73PrintsOneGiB (T73) checks a tool that prints 1 GiB in the nightly run and 256 MiB otherwise, while a watcher reads nothing of it.
// Other clients are served, and the memory stays bounded.
func TestT73PrintsOneGiB(t *testing.T) {
	size := 256 << 20
	if os.Getenv("TOOLD_NIGHTLY") != "" {
		size = 1 << 30
	}
	s := newSite(t, allowAll)
	p := s.start("--limits-output-quota", fmt.Sprint(int64(2<<30)))
	id := "prints-1-gib-0001"
	_, err := p.calls.ExecuteTool(t.Context(), &tooldv1.ExecuteToolRequest{Spec: &tooldv1.CallSpec{
		Tool: "bash", CallId: id, Arguments: fmt.Sprintf(`{"command": "head -c %d /dev/zero", "timeout": 600}`, size)}})
	must(t, err)
	for n := 0; ; n++ {
		c := p.do(inThread(fmt.Sprintf("served-meanwhile-%04d", n), "glob", map[string]any{"pattern": "*"}))
		if c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
			t.Fatalf("another caller is not served: %v", c.GetStatus())
		}
		got, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: id})
		if status.Code(err) == codes.NotFound {
			continue
		}
		must(t, err)
		if c := got.GetCall(); c.GetEndedAt() != nil {
			if c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || !strings.Contains(c.GetResult().GetData(), fmt.Sprintf(`"stdout_bytes":%d`, size)) {
				t.Errorf("%v %.300s", c.GetStatus(), c.GetResult().GetData())
			}
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	must(t, err)
	var peak int64
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	_, err = fmt.Sscan(rest, &peak)
	must(t, err)
	bound := int64(192 << 10) // limit in KiB; it is less than the amount that the tool prints
	if raced() {
		bound = 512 << 10
	}
	if peak > bound {
		t.Errorf("the daemon had %d KiB, more than %d", peak, bound)
	}
	t.Logf("%d KiB at most", peak)
}

// raced reports whether this binary has the race detector, which multiplies the memory use.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
