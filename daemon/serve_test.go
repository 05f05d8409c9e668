package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/toold-dev/toold/cli"

	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const bashAllowed = "rules:\n  - {action: allow, tools: [bash]}\n"

func bash(id, command string) *tooldv1.CallSpec {
	return &tooldv1.CallSpec{Tool: "bash", CallId: "serve-tests-call-" + id, Arguments: fmt.Sprintf(`{"command":%q}`, command), LingerNever: true}
}

func execute(t *testing.T, p *proc, spec *tooldv1.CallSpec) *aStream {
	t.Helper()
	stream, err := p.calls.ExecuteTool(within(t), &tooldv1.ExecuteToolRequest{Spec: spec, WaitForDecision: true})
	return follow(t, stream, err)
}

func isOutput(e *tooldv1.CallEvent) bool    { return e.GetOutput() != nil }
func isSuspended(e *tooldv1.CallEvent) bool { return e.GetSuspended() != nil }

// pidFrom returns the process id that a command prints first.
func pidFrom(t *testing.T, s *aStream) int {
	t.Helper()
	var pid int
	var id string
	eventually(t, "the command says its process id", func() bool {
		s.mu.Lock()
		refused := s.err
		s.mu.Unlock()
		must(t, refused)
		return s.has(func(e *tooldv1.CallEvent) bool {
			var err error
			pid, err = strconv.Atoi(strings.TrimSpace(string(e.GetOutput().GetData())))
			id = e.GetCallId()
			return e.GetOutput() != nil && err == nil
		})
	})
	return hostPID(t, id, pid)
}

// hostPID converts the id of a process in a call's PID namespace to its id on the host. It repeats the search, because a process that executes
// another program has no environment for a moment, and is then not found.
func hostPID(t *testing.T, call string, inside int) (host int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d of call %s", inside, call), func() bool {
		for _, pid := range processesOf(t, call) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, line, _ := strings.Cut(string(status), "NSpid:")
			line, _, _ = strings.Cut(line, "\n")
			if strings.HasSuffix(line, "\t"+strconv.Itoa(inside)) {
				host = pid
			}
		}
		return host != 0
	})
	return host
}

// processesOf returns the process ids on the host of a call's processes. It skips processes that have ended, because they have no
// environment.
func processesOf(t *testing.T, call string) (pids []int) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	for _, dir := range dirs {
		if environ, _ := os.ReadFile(filepath.Join(dir, "environ")); bytes.Contains(environ, []byte("/"+call+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func reasonOf(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

func statusNow(t *testing.T, p *proc, id string) tooldv1.CallStatus {
	t.Helper()
	resp, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: "serve-tests-call-" + id})
	must(t, err)
	return resp.GetCall().GetStatus()
}

// TestP6Drain (P6, T90) sends SIGTERM while calls run, are suspended and stream. TestP6LeavesInTime checks the time limit, with a fake
// clock, because this test is slow on a busy machine.
func TestP6Drain(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start("--timeouts-drain", "3s")
	quick := execute(t, p, bash("quick", "echo $$; sleep 0.7; echo done"))
	long := execute(t, p, bash("long", "echo $$; sleep 3600 & wait"))
	asked := execute(t, p, &tooldv1.CallSpec{Tool: "write", CallId: "serve-tests-call-asked", Arguments: `{"path":"a.txt","content":"x"}`})
	feedStream, err := p.calls.WatchCalls(within(t), &tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
	feed := follow(t, feedStream, err)
	pid := pidFrom(t, long)
	eventually(t, "all of it runs or waits", func() bool { return quick.has(isOutput) && asked.has(isSuspended) })

	p.signal(syscall.SIGTERM)
	health := healthv1.NewHealthClient(p.conn)
	eventually(t, "not ready", func() bool {
		resp, err := health.Check(within(t), &healthv1.HealthCheckRequest{})
		return err == nil && resp.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING
	})
	_, err = p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: bash("late", "true")})
	if status.Code(err) != codes.Unavailable || reasonOf(err) != "DRAINING" {
		t.Errorf("a new call: %v", err)
	}
	p.wait(hangs)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.log)
	}
	if alive(pid) {
		t.Errorf("process %d of the long call lives on", pid)
	}
	if f := lastFinished(quick.last(t)); f.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("the call that ends within the period: %v", f)
	}
	if f := lastFinished(long.last(t)); f.GetResult().GetError().GetCode() != tooldv1.ErrorCode_ERROR_CODE_INTERRUPTED {
		t.Errorf("the call that does not: %v", f)
	}
	for name, stream := range map[string]*aStream{"suspended call": asked, "feed": feed} {
		if f := stream.last(t); f.GetClosing().GetReason() != tooldv1.ClosingReason_CLOSING_REASON_DRAIN || f.GetCursor() == "" {
			t.Errorf("the stream of the %s ended with %v", name, f)
		}
	}

	again := s.start()
	if st := statusNow(t, again, "asked"); st != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
		t.Errorf("the suspended call is %v", st)
	}
	next, err := again.calls.WatchCalls(within(t), &tooldv1.WatchCallsRequest{
		Selector: &tooldv1.WatchCallsRequest_CallId{CallId: "serve-tests-call-asked"}, Cursor: asked.last(t).GetCursor(),
	})
	if f := follow(t, next, err).last(t); f.GetCaughtUp() == nil {
		t.Errorf("from the cursor on: %v", f)
	}
	if again.ready.Epoch != p.ready.Epoch+1 {
		t.Errorf("epoch %d after %d", again.ready.Epoch, p.ready.Epoch)
	}
}

func lastFinished(f *tooldv1.Frame) *tooldv1.CallFinished {
	if n := len(f.GetEvents()); n > 0 {
		return f.GetEvents()[n-1].GetFinished()
	}
	return nil
}

// P6, T90: a second signal ends the daemon at once, and the next start recovers its calls.
func TestP6SecondSignal(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start("--timeouts-drain", "10m")
	long := execute(t, p, bash("long", "echo $$; sleep 600 & wait"))
	pid := pidFrom(t, long)
	p.signal(syscall.SIGTERM)
	eventually(t, "draining", func() bool { return strings.Contains(p.log.String(), "draining") })
	eventually(t, "the second signal ends it", func() bool { // Send the signal again, because two signals in a row may be delivered as one.
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			return true
		case <-time.After(300 * time.Millisecond):
			return false
		}
	})
	again := s.start()
	eventually(t, "the process of the call is gone", func() bool { return !alive(pid) })
	resp, err := again.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: "serve-tests-call-long"})
	must(t, err)
	if c := resp.GetCall(); c.GetResult().GetError().GetCode() != tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT || c.GetExecuted() != tooldv1.Executed_EXECUTED_UNKNOWN {
		t.Errorf("the call is %v, %v", c.GetStatus(), c.GetResult())
	}
}

// P6: a tool that ignores its cancellation does not keep the daemon from ending.
func TestP6Stubborn(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start("--timeouts-drain", "200ms")
	stubborn := execute(t, p, bash("stubborn", "trap '' TERM INT; echo $$; while :; do sleep 1; done"))
	pid := pidFrom(t, stubborn)
	p.signal(syscall.SIGINT)
	p.wait(hangs)
	if alive(pid) {
		t.Errorf("process %d lives on", pid)
	}
}

// Drain does what SIGTERM does. A second Drain only reports the state.
func TestDrainRequest(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start()
	long := execute(t, p, bash("long", "echo $$; sleep 60 & wait"))
	pidFrom(t, long)
	first, err := p.admin.Drain(within(t), &tooldv1.DrainRequest{Period: durationpb.New(time.Hour)}) // The period is so long that the test ends before it.
	must(t, err)
	if first.GetRunning() != 1 {
		t.Errorf("%d calls run", first.GetRunning())
	}
	second, err := p.admin.Drain(within(t), &tooldv1.DrainRequest{Period: durationpb.New(time.Second)})
	must(t, err)
	if !second.GetDeadline().AsTime().Equal(first.GetDeadline().AsTime()) {
		t.Errorf("deadlines %v and %v", first.GetDeadline().AsTime(), second.GetDeadline().AsTime())
	}
	info, err := p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	if err != nil || !info.GetDraining() {
		t.Errorf("GetInfo: draining %t, %v", info.GetDraining(), err)
	}
	_, err = p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: bash("late", "true")})
	if status.Code(err) != codes.Unavailable || reasonOf(err) != "DRAINING" {
		t.Errorf("a new call: %v", err)
	}
	_, err = p.calls.CancelCall(within(t), &tooldv1.CancelCallRequest{CallId: "serve-tests-call-long", Wait: durationpb.New(0)})
	must(t, err)
	p.wait(hangs)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.log)
	}
}

// SIGHUP and Reload replace the rules while the daemon runs. An invalid file changes nothing, and the error names the place.
func TestReload(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start()
	tools := tooldv1.NewToolServiceClient(p.conn)
	has := func(id string) bool {
		_, err := tools.GetTool(within(t), &tooldv1.GetToolRequest{Tool: id})
		return err == nil
	}
	s.write("rules:\n  - {action: deny, tools: [bash}\n")
	_, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	if status.Code(err) != codes.FailedPrecondition || reasonOf(err) != "CONFIG_INVALID" || !strings.Contains(err.Error(), "rules.yaml:2:") {
		t.Errorf("a broken file: %v", err)
	}
	p.signal(syscall.SIGHUP)
	eventually(t, "SIGHUP tells the log", func() bool { return strings.Count(p.log.String(), "rules.yaml:2:") >= 2 })
	if !has("bash") {
		t.Fatal("the old rules do not hold any more")
	}
	s.write("rules:\n  - {action: deny, tools: [bash]}\n")
	resp, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if got := fmt.Sprint(resp.GetChanged(), resp.GetNeedsRestart()); got != "[rules] []" {
		t.Errorf("reloaded %s", got)
	}
	if has("bash") {
		t.Error("bash is still there")
	}
	s.write(bashAllowed)
	p.signal(syscall.SIGHUP)
	eventually(t, "SIGHUP brings bash back", func() bool { return has("bash") })
	resp, err = p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if len(resp.GetChanged()) != 0 {
		t.Errorf("nothing changed, and %v did", resp.GetChanged())
	}
}

// A second daemon on a store ends with an error that names the owner, and changes nothing.
func TestSecondDaemon(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	out, err := s.command().CombinedOutput()
	if err == nil || !strings.Contains(string(out), strconv.Itoa(p.ready.PID)) {
		t.Errorf("the second daemon: %v\n%s", err, out)
	}
	_, err = p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
}

// Only its owner can read the token file, and later starts keep the token.
func TestTokenFile(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	first, err := os.ReadFile(p.ready.TokenFile)
	must(t, err)
	info, err := os.Stat(p.ready.TokenFile)
	must(t, err)
	if info.Mode().Perm() != 0o600 || len(strings.TrimSpace(string(first))) < 43 {
		t.Errorf("mode %v, %d bytes", info.Mode().Perm(), len(first))
	}
	p.signal(syscall.SIGTERM)
	p.wait(hangs)
	must(t, os.Chmod(p.ready.TokenFile, 0o644)) // A careless copy can leave such a mode.
	p = s.start()
	second, err := os.ReadFile(p.ready.TokenFile)
	must(t, err)
	info, err = os.Stat(p.ready.TokenFile)
	must(t, err)
	if string(first) != string(second) || info.Mode().Perm() != 0o600 {
		t.Errorf("the token changed: %t, mode %v", string(first) != string(second), info.Mode().Perm())
	}
}

// After a fatal failure, the daemon ends at once with an error.
func TestFatal(t *testing.T) {
	s := newSite(t, "")
	cfg, err := load(t, "", nil, "--data", s.data, "--workspace", s.workspace, "--listen-tcp", "127.0.0.1:0", "--log-level", "error")
	must(t, err)
	d, err := newDaemon(context.Background(), cfg, newOptions(helperPath(), nil))
	must(t, err)
	lost := errors.New("fsync failed")
	d.fail(lost)
	d.fail(errors.New("another"))
	if err := d.run(context.Background()); !errors.Is(err, lost) { // without the failure, run would never return
		t.Errorf("run = %v", err)
	}
	closing, cancel := context.WithCancel(context.Background())
	cancel()
	d.service.Stop()
	d.server.Shutdown(closing) // needed here, because the process does not end after run
	must(t, d.close())
}

// check finds the problems that serve would find, and creates no files.
func TestCheck(t *testing.T) {
	s := newSite(t, "rules: [{action: perhaps}]")
	cfg, err := load(t, "", nil, "--data", s.data, "--workspace", s.workspace)
	must(t, err)
	_, err = check(context.Background(), cfg, options{})
	must(t, err)
	cfg.Rules = s.rules
	cfg.Workspace = filepath.Join(s.workspace, "nothing")
	cfg.TLS.Cert, cfg.TLS.Key = "none.pem", "none.pem"
	_, err = check(context.Background(), cfg, options{})
	for _, part := range []string{"rules.yaml:1:", "workspace", "tls"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not tell of %s", err, part)
		}
	}
	if _, err := os.Stat(s.data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("check made the data directory: %v", err)
	}
}

// A command that prints without end is stopped with all its processes, and its result gives the reason.
func TestOutputQuotaEndsTheProcessTree(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start("--limits-output-quota", "1000000")
	noisy := execute(t, p, bash("noisy", "sleep 60 & yes"))
	f := lastFinished(noisy.last(t))
	if e := f.GetResult().GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_RESOURCE_EXHAUSTED || e.GetReason() != "OUTPUT_QUOTA" {
		t.Errorf("ended so: %v", f)
	}
	if left := processesOf(t, "serve-tests-call-noisy"); len(left) > 0 {
		t.Errorf("processes of the call live on: %v", left)
	}
	p.signal(syscall.SIGTERM)
	p.wait(hangs)
}

// Both config check and serve refuse a workspace that overlaps with files of the daemon. They create nothing.
func TestPathsAreCheckedByCommands(t *testing.T) {
	dir := t.TempDir()
	for _, command := range [][]string{{"config", "check"}, {"serve"}} {
		new(run).do(t, dir, append(command, "--data", filepath.Join(dir, "ws", "data"), "--workspace", filepath.Join(dir, "ws"))...).
			expect(t, cli.ExitUsage, "", "keep them apart")
	}
	if _, err := os.Stat(filepath.Join(dir, "ws")); !os.IsNotExist(err) {
		t.Errorf("a refused start left something: %v", err)
	}
}
