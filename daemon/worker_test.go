package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/sdk/go/worker"
)

// asWorker is an environment variable with the address of a daemon. When it is set, this test binary acts as a worker of that daemon.
const asWorker = "TOOLD_TEST_AS_WORKER"

type testArgs struct {
	File string `json:"file,omitempty"`
}

// testWorker returns a worker whose tools write a line to a file for each attempt. Such a tool returns when another file exists, whose name
// has the suffix .go.
func testWorker(address, token string) *worker.Worker {
	cfg := worker.Config{Address: address, Token: token, Pool: "tests", MaxCalls: 4, Log: func(s string) { fmt.Fprintln(os.Stderr, s) }}
	if file, ok := strings.CutPrefix(token, "@"); ok {
		cfg.TokenSource = func(context.Context) (string, error) {
			text, err := os.ReadFile(file)
			return string(text), err
		}
	}
	w := worker.New(cfg)
	held := func(ctx context.Context, c *worker.Call, in testArgs) (string, error) {
		f, err := os.OpenFile(in.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(f, c.GetAttempt(), c.GetIdempotencyKey())
		f.Close()
		for {
			if _, err := os.Stat(in.File + ".go"); err == nil {
				return "held on attempt " + fmt.Sprint(c.GetAttempt()), nil
			}
			select {
			case <-ctx.Done():
				return "", context.Cause(ctx)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	worker.Add(w, worker.Tool{ID: "held", Observe: true}, held)
	worker.Add(w, worker.Tool{ID: "held_idempotent", Observe: true, Idempotent: true}, held)
	worker.Add(w, worker.Tool{ID: "held_read", Observe: true, ReadOnly: true}, held)
	worker.Add(w, worker.Tool{ID: "held_known", Observe: true, Reconcile: func(context.Context, *worker.Call) (*tooldv1.WorkerResult, error) {
		return worker.Success("it happened"), nil
	}}, held)
	worker.Add(w, worker.Tool{ID: "greet", Observe: true, ReadOnly: true, ConcurrencySafe: true}, func(_ context.Context, _ *worker.Call, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "Hello, " + in.Name + "!", nil
	})
	worker.Add(w, worker.Tool{ID: "tells", Observe: true}, func(ctx context.Context, c *worker.Call, _ testArgs) (map[string]any, error) {
		c.Progress(0.5, "half")
		c.Activity("plan", "todo", []string{"one"})
		c.ActivityDelta("plan", []map[string]any{{"op": "add", "path": "/-", "value": "two"}})
		c.Output("stdout", []byte("printed\n"))
		err := c.SaveCheckpoint(ctx, []byte("kept"))
		return map[string]any{"caller": c.GetCaller().GetSubject(), "run": c.GetRun().GetRunId(), "key": len(c.GetIdempotencyKey())}, err
	})
	worker.Add(w, worker.Tool{ID: "steps", Observe: true}, func(_ context.Context, c *worker.Call, _ testArgs) (any, error) {
		c.ReportProgress(&tooldv1.Progress{Status: tooldv1.ProgressStatus_PROGRESS_STATUS_PENDING, Message: "queued"})
		c.ReportProgress(&tooldv1.Progress{Fraction: 0.25, Loaded: 1, Total: 4})
		c.ReportProgress(&tooldv1.Progress{Status: tooldv1.ProgressStatus_PROGRESS_STATUS_DONE, Fraction: 1, Loaded: 4, Total: 4})
		c.ReportProgress(&tooldv1.Progress{Status: tooldv1.ProgressStatus_PROGRESS_STATUS_FAILED, Message: "no paint"})
		c.ReportProgress(&tooldv1.Progress{Status: tooldv1.ProgressStatus_PROGRESS_STATUS_CANCELLED})
		c.Progress(math.NaN(), "")
		c.ReportProgress(&tooldv1.Progress{Loaded: -1})
		c.ReportProgress(&tooldv1.Progress{Status: 99})
		return nil, nil
	})
	worker.Add(w, worker.Tool{ID: "asks", Observe: true}, func(_ context.Context, c *worker.Call, _ testArgs) (string, error) {
		var colour string
		if ok, err := c.Resumed(&colour); ok || err != nil {
			return "painted " + colour, err
		}
		return "", worker.Ask("Which colour?", map[string]any{"type": "string"})
	})
	worker.Add(w, worker.Tool{ID: "fails", Observe: true}, func(context.Context, *worker.Call, testArgs) (string, error) {
		return "", worker.Fail("NO_PAINT", "there is no paint")
	})
	worker.Add(w, worker.Tool{ID: "panics", Observe: true}, func(context.Context, *worker.Call, testArgs) (string, error) { panic("oh no") })
	worker.Add(w, worker.Tool{ID: "huge", Observe: true}, func(context.Context, *worker.Call, testArgs) (string, error) {
		return strings.Repeat("x", 5<<20), nil
	})
	worker.Add(w, worker.Tool{ID: "odd", Observe: true}, func(_ context.Context, c *worker.Call, _ testArgs) (string, error) {
		c.Progress(0.5, "half of \xf0")
		return "cut \xf0", nil
	})
	addOperations(w)
	addInputs(w)
	addPaint(w)
	worker.Add(w, worker.Tool{ID: "leaves", Observe: true}, func(context.Context, *worker.Call, testArgs) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	return w
}

// addOperations adds tools to a worker whose work continues outside of it.
func addOperations(w *worker.Worker) {
	var asked sync.Map
	worker.Add(w, worker.Tool{ID: "renders", Observe: true, Poll: func(_ context.Context, c *worker.Call) (*tooldv1.WorkerResult, error) {
		n, _ := asked.LoadOrStore(c.GetCallId(), 0)
		asked.Store(c.GetCallId(), n.(int)+1)
		switch n {
		case 0:
			return nil, errors.New("no route")
		case 1:
			c.Progress(0.5, "half")
			return nil, nil
		}
		return worker.Success("a picture of " + c.GetOperationId()), nil
	}}, func(context.Context, *worker.Call, testArgs) (string, error) {
		return "", worker.Continue(worker.Operation{ID: "op-1", PollAfter: 100 * time.Millisecond, Message: "it renders"})
	})
	worker.Add(w, worker.Tool{ID: "delivers", Observe: true}, func(ctx context.Context, c *worker.Call, _ testArgs) (string, error) {
		go func() {
			first := w.Complete(context.Background(), c.GetCallId(), "op-2", "delivered", nil)
			second := w.Complete(context.Background(), c.GetCallId(), "op-2", "twice", nil)
			if first == nil && errors.Is(second, worker.ErrNoOperation) {
				fmt.Fprintln(os.Stderr, "delivered once")
			}
		}()
		time.Sleep(300 * time.Millisecond)
		return "", worker.Continue(worker.Operation{ID: "op-2"})
	})
	worker.Add(w, worker.Tool{ID: "saves", Observe: true}, func(ctx context.Context, c *worker.Call, _ testArgs) (string, error) {
		a, err1 := c.SaveArtifact(ctx, "page.txt", "text/plain", []byte("long"))
		b, err2 := c.SaveArtifact(ctx, "page.txt", "text/plain", []byte("longer"))
		return a + " " + b, errors.Join(err1, err2)
	})
	worker.Add(w, worker.Tool{ID: "elsewhere", Observe: true, Poll: func(_ context.Context, c *worker.Call) (*tooldv1.WorkerResult, error) {
		_, err := os.Stat(c.GetOperationId() + ".go")
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
		return worker.Success("done elsewhere"), err
	}}, func(_ context.Context, c *worker.Call, in testArgs) (string, error) {
		f, err := os.OpenFile(in.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return "", err
		}
		defer f.Close()
		fmt.Fprintln(f, c.GetAttempt())
		return "", worker.Continue(worker.Operation{ID: in.File, PollAfter: 100 * time.Millisecond})
	})
}

// serveTestTools runs a worker in this process.
func serveTestTools(address string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := testWorker(address, os.Getenv("TOOLD_TEST_TOKEN")).Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A language is one SDK. command returns its worker with the tools of the transcript, for a daemon at an address.
type language struct {
	name    string
	command func(t *testing.T, address string) *exec.Cmd
	client  func(t *testing.T, address string) *exec.Cmd // plays the transcript of clients
	agent   func(t *testing.T, address string) *exec.Cmd // plays the transcript of agents; nil if the SDK has no toolsets
	units   func(t *testing.T) *exec.Cmd                 // runs the unit tests of the SDK; nil for Go, because go test runs them
}

func languages() []language {
	return []language{
		{
			"go",
			func(t *testing.T, address string) *exec.Cmd { return goSDK(t, asWorker+"="+address) },
			func(t *testing.T, address string) *exec.Cmd { return goSDK(t, asClient+"="+address) },
			func(t *testing.T, address string) *exec.Cmd { return goSDK(t, asAgent+"="+address) },
			nil,
		},
		{
			"python",
			func(t *testing.T, address string) *exec.Cmd {
				return pythonSDK(t, "../sdk/python/tests/transcript_worker.py", address)
			},
			func(t *testing.T, address string) *exec.Cmd {
				return pythonSDK(t, "../sdk/python/tests/transcript_client.py", address)
			},
			func(t *testing.T, address string) *exec.Cmd {
				return pythonSDK(t, "../sdk/python/tests/transcript_agent.py", address)
			},
			func(t *testing.T) *exec.Cmd {
				return pythonSDK(t, "-m", "unittest", "discover", "-s", "../sdk/python/tests")
			},
		},
		{
			"typescript",
			func(t *testing.T, address string) *exec.Cmd { return typescriptSDK(t, "transcript_worker.js", address) },
			func(t *testing.T, address string) *exec.Cmd { return typescriptSDK(t, "transcript_client.js", address) },
			func(t *testing.T, address string) *exec.Cmd { return typescriptSDK(t, "transcript_agent.js", address) },
			func(t *testing.T) *exec.Cmd {
				needNode(t, "../turn/providers/node_modules", "scripts/providers.sh")
				cmd := typescriptSDK(t, "")
				cmd.Args = []string{"node", "--test"}
				for _, file := range []string{"digest", "channel", "client", "uistream"} {
					cmd.Args = append(cmd.Args, "../sdk/typescript/dist/tests/"+file+".test.js")
				}
				return cmd
			},
		},
	}
}

// goSDK returns this test binary as a worker or a client.
func goSDK(t *testing.T, as string) *exec.Cmd {
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), as)
	return cmd
}

// inEach runs a test with the SDK of each language.
func inEach(t *testing.T, run func(t *testing.T, l language)) {
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) { run(t, l) })
	}
}

// worker starts a worker in a separate process and waits until the daemon lists its tools.
func (p *proc) worker(l language, address, token string) *exec.Cmd {
	p.t.Helper()
	cmd := l.command(p.t, address)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, "TOOLD_TEST_TOKEN="+token)
	cmd.Stderr = p.log
	must(p.t, cmd.Start())
	p.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p.sees("greet", true)
	return cmd
}

// sees waits until a tool is listed, or until it is not listed if want is false.
func (p *proc) sees(id string, want bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), hangs)
	defer cancel()
	watch, err := tooldv1.NewToolServiceClient(p.conn).WatchTools(ctx, &tooldv1.WatchToolsRequest{})
	must(p.t, err)
	have := map[string]bool{}
	for have[id] != want || len(have) == 0 {
		m, err := watch.Recv()
		if err != nil {
			p.t.Fatalf("the tool %s is listed: want %t: %v\n%s", id, want, err, p.log)
		}
		if m.GetReset_() {
			clear(have)
		}
		for _, c := range m.GetChanges() {
			if t := c.GetPut(); t != nil {
				have[t.GetId()] = true
			} else {
				delete(have, c.GetRemoved())
			}
		}
		have[""] = true
	}
}

func (p *proc) token() string {
	b, err := os.ReadFile(p.ready.TokenFile)
	must(p.t, err)
	return strings.TrimSpace(string(b))
}

// begin starts a call that continues without a watcher.
func (p *proc) begin(id, tool, arguments string) {
	p.t.Helper()
	_, err := p.calls.CallTool(p.t.Context(), &tooldv1.CallToolRequest{
		Spec: &tooldv1.CallSpec{CallId: id, Tool: tool, Arguments: arguments, LingerNever: true, Run: &tooldv1.Run{RunId: "r1"}}, Wait: durationpb.New(time.Millisecond),
	})
	must(p.t, err)
}

// end waits for the end of a call.
func (p *proc) end(id, tool, arguments string) *tooldv1.Call {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	r, err := p.calls.CallTool(ctx, &tooldv1.CallToolRequest{
		Spec: &tooldv1.CallSpec{CallId: id, Tool: tool, Arguments: arguments, Run: &tooldv1.Run{RunId: "r1"}}, Wait: durationpb.New(time.Minute),
	})
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", tool, err, p.log)
	}
	return r.GetCall()
}

// awaitLines waits until a file has n lines.
func awaitLines(t *testing.T, file string, n int) []string {
	t.Helper()
	var lines []string
	eventually(t, fmt.Sprintf("%s has %d lines", file, n), func() bool {
		b, _ := os.ReadFile(file)
		lines = strings.Split(strings.TrimSpace(string(b)), "\n")
		return len(lines) >= n && lines[0] != ""
	})
	return lines
}

// A played is one line of the transcript of workers.
type played struct {
	About, Tool, Status, Executed, Code, Reason, Message, Events string
	Arguments, Data, Answer                                      json.RawMessage
	Progress                                                     []string `json:",omitempty"` // status, fraction, amounts and message of each report
	Input                                                        []string `json:",omitempty"` // input that is sent while the call runs, followed by the end of input
}

// TestWorkerTokenIsReplaced replaces the token of a worker, which the worker reads from a file. The worker must connect again with the new
// token. Its first tries fail, because the file is first absent and then still has the old token.
func TestWorkerTokenIsReplaced(t *testing.T) {
	inEach(t, func(t *testing.T, l language) {
		s := newSite(t, "")
		config, file := s.rules+".config", s.rules+".token"
		write := func(token string) {
			text := fmt.Sprintf("auth: {tokens: [{name: pool, roles: [worker], hash: 'sha256:%x'}]}\n", sha256.Sum256([]byte(token)))
			must(t, os.WriteFile(config, []byte(text), 0o600))
		}
		const first, second = "the-first-token-0123456789", "the-second-token-0123456789"
		write(first)
		must(t, os.WriteFile(file, []byte(first+"\n"), 0o600))
		p := s.start("--config", config, "--workers-lease", "2s")
		p.worker(l, p.ready.TCP, "@"+file)
		greet := func() {
			t.Helper()
			r, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "greet", Arguments: `{"name":"Ada"}`}})
			must(t, err)
			if r.GetCall().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
				t.Fatalf("the call of greet is %v\n%s", r.GetCall(), p.log)
			}
		}
		greet() // so the worker knows that it is admitted
		must(t, os.Remove(file))
		write(second)
		_, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
		must(t, err)
		p.logs(t, "connection lost: ")
		p.logs(t, "o such file")
		must(t, os.WriteFile(file, []byte(first+"\n"), 0o600))
		p.logs(t, "does not know the token")
		must(t, os.WriteFile(file, []byte(second+"\n"), 0o600))
		greet()
	})
}

// The workers of all languages give the same results for the same transcript.
func TestWorkerTranscript(t *testing.T) {
	text, err := os.ReadFile("../sdk/testdata/worker.jsonl")
	must(t, err)
	inEach(t, func(t *testing.T, l language) {
		p := newSite(t, "").start("--workers-lease", "5s")
		p.worker(l, p.ready.TCP, p.token())
		for line := range strings.Lines(string(text)) {
			var want played
			must(t, json.Unmarshal([]byte(line), &want))
			t.Run(want.About, func(t *testing.T) { p.play(t, &want) })
		}
	})
}

func (p *proc) play(t *testing.T, want *played) {
	t.Helper()
	stream, err := p.calls.ExecuteTool(t.Context(), &tooldv1.ExecuteToolRequest{Spec: &tooldv1.CallSpec{
		Tool: want.Tool, Arguments: string(want.Arguments), Run: &tooldv1.Run{RunId: "r1"},
	}})
	must(t, err)
	var events, progress []string
	var id, suspension string
	var typing sync.WaitGroup
	for f, err := stream.Recv(); err == nil; f, err = stream.Recv() {
		for _, e := range f.GetFrame().GetEvents() {
			id = e.GetCallId()
			if e.GetAttemptStarted() != nil && want.Input != nil {
				typing.Go(func() { p.types(t, id, want.Input...) })
			}
			if p := e.GetProgress(); p != nil {
				progress = append(progress, fmt.Sprintf("%s %v %d/%d %s", strings.TrimPrefix(p.GetStatus().String(), "PROGRESS_STATUS_"), p.GetFraction(), p.GetLoaded(), p.GetTotal(), p.GetMessage()))
			}
			suspension = e.GetSuspended().GetSuspension().GetSuspensionId()
			events = append(events, strings.TrimPrefix(fmt.Sprintf("%T", e.GetEvent()), "*tooldv1.CallEvent_"))
		}
	}
	typing.Wait()
	if want.Answer != nil {
		resumed, err := p.calls.ResumeTool(t.Context(), &tooldv1.ResumeToolRequest{SuspensionId: suspension, Decision: &tooldv1.Decision{
			DecisionId: "decision-" + suspension, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Result: string(want.Answer),
		}})
		for err == nil {
			_, err = resumed.Recv()
		}
	}
	c := p.get(id)
	r, e := c.GetResult(), c.GetResult().GetError()
	got := played{
		About: want.About, Tool: want.Tool, Status: strings.TrimPrefix(c.GetStatus().String(), "CALL_STATUS_"), Executed: strings.TrimPrefix(c.GetExecuted().String(), "EXECUTED_"),
		Reason: want.Reason, Message: want.Message, Events: want.Events, Arguments: want.Arguments, Answer: want.Answer, Input: want.Input,
	}
	if e != nil {
		got.Code, got.Message = strings.TrimPrefix(e.GetCode().String(), "ERROR_CODE_"), e.GetMessage()
		if m := regexp.MustCompile(`^(The tool failed internally \()([0-9a-f-]{36})(\)\.)$`).FindStringSubmatch(got.Message); m != nil {
			eventually(t, "the daemon's log has the id of the panic", func() bool { return strings.Contains(p.log.String(), m[2]) })
			got.Message = m[1] + "ID" + m[3]
		}
	} else {
		got.Message = r.GetMessage()
	}
	if want.Reason != "" {
		got.Reason = e.GetReason()
	}
	if want.Message == "" {
		got.Message = ""
	}
	if want.Events != "" {
		got.Events = strings.Join(events, " ")
	}
	if want.Progress != nil {
		got.Progress = progress
	}
	if want.Data != nil {
		got.Data = json.RawMessage(r.GetData())
	}
	if a, b := comparable(t, got), comparable(t, *want); a != b {
		t.Errorf("got  %s\nwant %s\n%s", a, b, p.log)
	}
}

// comparable returns the canonical form of a value.
func comparable(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	var any map[string]any
	must(t, json.Unmarshal(text, &any))
	text, err = json.Marshal(any)
	must(t, err)
	return string(text)
}

// TestWorkerCancelAndDrain checks that the context of a tool function ends when its call is cancelled. A worker that is asked to end waits
// for the end of its calls first.
func TestWorkerCancelAndDrain(t *testing.T) { inEach(t, cancelAndDrain) }

func cancelAndDrain(t *testing.T, l language) {
	p := newSite(t, "").start("--workers-lease", "5s")
	w := p.worker(l, p.ready.TCP, p.token())
	file := filepath.Join(t.TempDir(), "held")
	p.begin("cancelled-0000001", "held", fmt.Sprintf(`{"file":%q}`, file))
	awaitLines(t, file, 1)
	r, err := p.calls.CancelCall(t.Context(), &tooldv1.CancelCallRequest{CallId: "cancelled-0000001", Wait: durationpb.New(10 * time.Second)})
	must(t, err)
	if got := r.GetCall(); got.GetStatus() != tooldv1.CallStatus_CALL_STATUS_CANCELLED || got.GetExecuted() != tooldv1.Executed_EXECUTED_STARTED {
		t.Errorf("cancelled: %v", got)
	}
	p.begin("drained-000000001", "held", fmt.Sprintf(`{"file":%q}`, file+"2"))
	awaitLines(t, file+"2", 1)
	must(t, w.Process.Signal(syscall.SIGTERM))
	p.sees("greet", true) // The tool stays listed for a while, because its worker may reconnect.
	must(t, os.WriteFile(file+"2.go", nil, 0o600))
	if c := p.end("drained-000000001", "held", fmt.Sprintf(`{"file":%q}`, file+"2")); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("drained: %v", c)
	}
	if err := w.Wait(); err != nil {
		t.Errorf("the worker ended with %v\n%s", err, p.log)
	}
}

// T84: the process of a worker is killed while it runs calls.
func TestT84WorkerKilled(t *testing.T) { inEach(t, workerKilled) }

func workerKilled(t *testing.T, l language) {
	p := newSite(t, "").start("--workers-lease", "2s")
	first := p.worker(l, p.ready.TCP, p.token())
	dir := t.TempDir()
	file := func(tool string) string { return filepath.Join(dir, tool) }
	args := func(tool string) string { return fmt.Sprintf(`{"file":%q}`, file(tool)) }
	tools := []string{"held", "held_idempotent", "held_read", "held_known"}
	for _, tool := range tools {
		p.begin("killed-"+tool+"-00000", tool, args(tool))
		awaitLines(t, file(tool), 1)
	}
	must(t, first.Process.Kill())
	_ = first.Wait()
	p.worker(l, p.ready.TCP, p.token())
	for _, tool := range tools[1:3] {
		lines := awaitLines(t, file(tool), 2)
		if a, b := strings.Fields(lines[0]), strings.Fields(lines[1]); a[1] != b[1] || b[0] != "2" {
			t.Errorf("%s ran again as %q after %q", tool, lines[1], lines[0])
		}
		must(t, os.WriteFile(file(tool)+".go", nil, 0o600))
		if c := p.end("killed-"+tool+"-00000", tool, args(tool)); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED || len(c.GetAttempts()) != 2 {
			t.Errorf("%s: %v", tool, c)
		}
	}
	if c := p.get("killed-held-00000"); c.GetExecuted() != tooldv1.Executed_EXECUTED_UNKNOWN || c.GetResult().GetError().GetCode() != tooldv1.ErrorCode_ERROR_CODE_IN_DOUBT {
		t.Errorf("held: %v", c)
	}
	if n := len(awaitLines(t, file("held"), 1)); n != 1 {
		t.Errorf("held ran %d times", n)
	}
	if c := p.end("killed-held_known-00000", "held_known", args("held_known")); c.GetResult().GetMessage() != "it happened" {
		t.Errorf("held_known: %v", c)
	}
}

func (p *proc) get(id string) *tooldv1.Call {
	p.t.Helper()
	var c *tooldv1.Call
	eventually(p.t, id+" ends", func() bool {
		c = p.peek(id)
		return c.GetEndedAt() != nil
	})
	return c
}

// TestWorkerOverRestart kills the daemon while a call of a worker is suspended. The next daemon knows the tool before the worker
// reconnects.
func TestWorkerOverRestart(t *testing.T) { inEach(t, workerOverRestart) }

func workerOverRestart(t *testing.T, l language) {
	s := newSite(t, "")
	p := s.start("--workers-lease", "2s")
	p.worker(l, "unix:"+p.ready.Unix, "")
	file := filepath.Join(t.TempDir(), "elsewhere")
	const operating = "goes-on-over-a-restart"
	p.begin(operating, "elsewhere", fmt.Sprintf(`{"file":%q}`, file))
	awaitLines(t, file, 1)
	eventually(t, "the operation is stored", func() bool { return p.peek(operating).GetAttempts()[0].GetOperation().GetOperationId() == file })
	const id = "asks-over-a-restart"
	asked := p.end(id, "asks", "{}")
	if asked.GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUSPENDED {
		t.Fatalf("asks: %v", asked)
	}
	p.kill()
	p = s.start("--workers-lease", "2s")
	resumed, err := p.calls.ResumeTool(t.Context(), &tooldv1.ResumeToolRequest{SuspensionId: asked.GetSuspension().GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: "decision-over-a-restart", Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Result: `"red"`,
	}})
	must(t, err)
	for err == nil {
		_, err = resumed.Recv()
	}
	if c := p.get(id); c.GetResult().GetMessage() != "painted red" {
		t.Errorf("after the answer: %v\n%s", c, p.log)
	}
	must(t, os.WriteFile(file+".go", nil, 0o600))
	if c := p.get(operating); c.GetResult().GetMessage() != "done elsewhere" || c.GetExecuted() != tooldv1.Executed_EXECUTED_FINISHED || len(awaitLines(t, file, 1)) != 1 {
		t.Errorf("the operation: %v\n%s", c, p.log)
	}
}

// peek returns the current record of a call.
func (p *proc) peek(id string) *tooldv1.Call {
	p.t.Helper()
	r, err := p.calls.GetCall(p.t.Context(), &tooldv1.GetCallRequest{CallId: id})
	must(p.t, err)
	return r.GetCall()
}

// An operator sees which worker provides which tools.
func TestWorkerSources(t *testing.T) {
	p := newSite(t, "").start("--workers-lease", "2s")
	source := func() *tooldv1.Source {
		r, err := p.admin.ListSources(t.Context(), &tooldv1.ListSourcesRequest{})
		must(t, err)
		for _, s := range r.GetSources() {
			if s.GetName() == "worker:default/tests" {
				return s
			}
		}
		return nil
	}
	w := p.worker(languages()[0], p.ready.TCP, p.token())
	if s := source(); s.GetState() != tooldv1.SourceState_SOURCE_STATE_READY || s.GetTools() != 20 || !strings.HasPrefix(s.GetServer(), "1 worker: ") {
		t.Errorf("served: %v", s)
	}
	must(t, w.Process.Signal(syscall.SIGTERM))
	must(t, w.Wait())
	eventually(t, "the source is down", func() bool { return source().GetState() == tooldv1.SourceState_SOURCE_STATE_DOWN })
}

// TestT61ForeignLease (T61) checks that messages of a worker about a lease that it does not hold change nothing, even if the worker knows
// the id of the lease.
func TestT61ForeignLease(t *testing.T) {
	p := newSite(t, "").start("--workers-lease", "20s")
	dial := func(pool, tool string) (tooldv1.WorkerService_ConnectClient, func() *tooldv1.ConnectResponse) {
		stream, err := tooldv1.NewWorkerServiceClient(p.conn).Connect(t.Context())
		must(t, err)
		say(t, stream, &tooldv1.ConnectRequest_Register{Register: &tooldv1.WorkerRegister{Pool: pool, Tools: []*tooldv1.WorkerTool{{
			Descriptor_: &tooldv1.Descriptor{Id: tool, Effects: &tooldv1.Assessment{Tier: tooldv1.Tier_TIER_OBSERVE}},
		}}}})
		return stream, func() *tooldv1.ConnectResponse {
			m, err := stream.Recv()
			must(t, err)
			return m
		}
	}
	honest, honestReceive := dial("honest", "pays")
	thief, thiefReceive := dial("thief", "steals")
	if r := honestReceive().GetRegistered(); len(r.GetRefused()) > 0 || r.GetLease().AsDuration() != 20*time.Second {
		t.Fatalf("registered: %v", r)
	}
	thiefReceive()
	const id = "paid-by-the-honest-one"
	p.begin(id, "pays", "{}")
	lease := honestReceive().GetStart().GetLeaseId()
	stolen := &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `"stolen"`}
	say(t, thief, &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: lease, Result: stolen}})
	if got := thiefReceive().GetLost().GetLeaseId(); got != lease {
		t.Errorf("a result of the thief: it lost %q", got)
	}
	say(t, thief, &tooldv1.ConnectRequest_Report{Report: &tooldv1.WorkerReport{LeaseId: lease, Report: &tooldv1.WorkerReport_Output{Output: &tooldv1.Output{Stream: "stdout", Data: []byte("x")}}}})
	if got := thiefReceive().GetLost().GetLeaseId(); got != lease {
		t.Errorf("a report of the thief: it lost %q", got)
	}
	// The thief connects again, and does not get the lease.
	again, againReceive := dial("thief", "steals")
	if r := againReceive().GetRegistered(); r == nil {
		t.Fatal("the thief could not register again")
	}
	say(t, again, &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: lease, Result: stolen}})
	if got := againReceive().GetLost().GetLeaseId(); got != lease {
		t.Errorf("after a new connection, the thief reads that it lost %q", got)
	}
	say(t, honest, &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: lease, Result: &tooldv1.WorkerResult{Status: tooldv1.ResultStatus_RESULT_STATUS_SUCCESS, Data: `"paid"`}}})
	if honestReceive().GetAck().GetLeaseId() != lease {
		t.Error("the end was not taken")
	}
	say(t, honest, &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: lease, Result: stolen}}) // a second outcome, which comes too late
	if got := honestReceive().GetLost().GetLeaseId(); got != lease {
		t.Errorf("a second end: it lost %q", got)
	}
	if c := p.get(id); c.GetResult().GetData() != `"paid"` {
		t.Errorf("the call: %v", c)
	}
	// Only the pool of an operation can complete it.
	const later = "paid-elsewhere-later"
	p.begin(later, "pays", "{}")
	lease = honestReceive().GetStart().GetLeaseId()
	say(t, honest, &tooldv1.ConnectRequest_Done{Done: &tooldv1.WorkerDone{LeaseId: lease, Result: &tooldv1.WorkerResult{
		Status: tooldv1.ResultStatus_RESULT_STATUS_PENDING, Operation: &tooldv1.WorkerOperation{OperationId: "transfer-1"},
	}}})
	honestReceive()
	eventually(t, "the operation is stored", func() bool { return p.peek(later).GetAttempts()[0].GetOperation().GetOperationId() == "transfer-1" })
	complete := func(operation string) *tooldv1.ConnectRequest_Complete {
		return &tooldv1.ConnectRequest_Complete{Complete: &tooldv1.WorkerComplete{CallId: later, OperationId: operation, Result: stolen}}
	}
	say(t, thief, complete("transfer-1"))
	if got := thiefReceive().GetCompleted(); got.GetError() == "" || got.GetRetryable() || got.GetOperationId() != "transfer-1" {
		t.Errorf("the thief completes: %v", got)
	}
	say(t, honest, complete("transfer-2"))
	if got := honestReceive().GetCompleted(); got.GetError() == "" || got.GetRetryable() {
		t.Errorf("another operation: %v", got)
	}
	say(t, honest, &tooldv1.ConnectRequest_Complete{Complete: &tooldv1.WorkerComplete{CallId: later, OperationId: "transfer-1"}}) // completes the operation without a result
	if got := honestReceive().GetCompleted(); got.GetError() != "" {
		t.Errorf("completed: %v", got)
	}
	if c := p.get(later); c.GetStatus() != tooldv1.CallStatus_CALL_STATUS_FAILED || c.GetResult().GetError().GetReason() != "WORKER_PROTOCOL" {
		t.Errorf("completed with nothing: %v", c)
	}
}

func say(t *testing.T, stream tooldv1.WorkerService_ConnectClient, m any) {
	t.Helper()
	req := &tooldv1.ConnectRequest{}
	switch m := m.(type) {
	case *tooldv1.ConnectRequest_Register:
		req.Message = m
	case *tooldv1.ConnectRequest_Done:
		req.Message = m
	case *tooldv1.ConnectRequest_Report:
		req.Message = m
	case *tooldv1.ConnectRequest_Complete:
		req.Message = m
	case *tooldv1.ConnectRequest_Answer:
		req.Message = m
	}
	must(t, stream.Send(req))
}
