package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// post is a tool that requests an action.
func post(context.Context, *tool.Call) (*tool.Result, error) {
	return &tool.Result{Status: tool.StatusSuccess, Message: "posted", Actions: []tool.Action{{Handler: "letters", Phase: tool.AfterCommit, Payload: `"Dear Ada"`}}}, nil
}

// refuses is a gate that refuses every call.
type refuses struct{}

func (refuses) Check(context.Context, *hook.Input) (hook.Verdict, error) {
	return hook.Deny("not here"), nil
}

// letters is an action handler that sends each payload to the channel.
type letters chan string

func (l letters) Handle(_ context.Context, in *hook.ActionInput) (hook.ActionResult, error) {
	l <- in.Payload
	return hook.ActionResult{}, nil
}

// TestEmbedded checks a daemon inside another program. It serves the tools, gates and action handlers of that program, and does not change
// the state of the process. Without a helper program it cannot isolate processes, so tools that need isolation do not run. It never starts
// the program itself as the helper.
func TestEmbedded(t *testing.T) {
	s := newSite(t, bashAllowed)
	cfg, err := config.Parse([]string{"--data", s.data, "--workspace", s.workspace, "--rules", s.rules, "--listen-tcp", "127.0.0.1:0", "--log-level", "error"}, nil)
	must(t, err)
	percent := debug.SetGCPercent(123)
	defer debug.SetGCPercent(percent)
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)) // Clear the flag, because earlier tests in this process may have set it.
	sent, ready, ended := make(letters, 1), make(chan Ready, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	reading := tool.Effects{Mutability: tool.ReadOnly, Tier: tool.Observe}
	d := New(cfg,
		WithTools(tool.Func(tool.Descriptor{ID: "post", Effects: reading}, post), tool.Func(tool.Descriptor{ID: "refused", Effects: reading}, post)),
		WithHooks(hook.Set{Gate: []hook.Entry[hook.Gate]{{Name: "refuses", Hook: refuses{}, Match: hook.Match{Tools: []string{"refused"}, Sources: []string{embedded}}}}}),
		WithActions(hook.Entry[hook.Handler]{Name: "letters", Hook: sent}),
		WithReady(func(r Ready) { ready <- r }))
	go func() { ended <- d.Run(ctx) }()
	var at Ready
	select {
	case at = <-ready:
	case err := <-ended:
		t.Fatalf("the daemon ended: %v", err)
	}
	call := clientOf(t, at)

	if r := call("post", `{}`); r.GetMessage() != "posted" {
		t.Errorf("the tool's result is %v", r)
	}
	select {
	case text := <-sent:
		if text != `"Dear Ada"` {
			t.Errorf("the handler got %s", text)
		}
	case <-ctx.Done():
		t.Error("the handler got nothing")
	}
	if e := call("refused", `{}`).GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_DENIED || e.GetMessage() != "not here" {
		t.Errorf("the gate's refusal is %v", e)
	}
	if e := call("bash", `{"command":"touch ran"}`).GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_SANDBOX {
		t.Errorf("a command without a helper ended with %v", e)
	}
	if _, err := os.Stat(filepath.Join(s.workspace, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
	if now := debug.SetGCPercent(123); now != 123 {
		t.Errorf("the daemon set the runtime's GOGC to %d", now)
	}
	var adopts int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&adopts)), 0, 0, 0); err != nil || adopts != 0 {
		t.Errorf("the daemon made the process adopt orphans: %d, %v", adopts, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
}

// clientOf returns a function that calls tools of a daemon.
func clientOf(t *testing.T, at Ready) func(name, arguments string) *tooldv1.ToolResult {
	t.Helper()
	token, err := os.ReadFile(at.TokenFile)
	must(t, err)
	conn, err := grpc.NewClient(at.TCP, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(bearer(strings.TrimSpace(string(token)))))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	calls := tooldv1.NewCallServiceClient(conn)
	return func(name, arguments string) *tooldv1.ToolResult {
		t.Helper()
		got, err := calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: name, Arguments: arguments}})
		must(t, err)
		return got.GetCall().GetResult()
	}
}

// TestGivenHooks checks the order of hooks that the embedding program adds. They run after the plugins of the daemon, or at the position
// that the configuration gives them.
func TestGivenHooks(t *testing.T) {
	gate := func(names ...string) (s hook.Set) {
		for _, name := range names {
			s.Gate = append(s.Gate, hook.Entry[hook.Gate]{Name: name, Hook: refuses{}, Deadline: time.Minute})
		}
		return s
	}
	program := hookProgram(t, "program", "exit 0")
	outside := "  - {name: outside, command: [" + program + "]}\n"
	for _, tt := range []struct {
		config string
		given  []Option
		want   string
	}{
		{"", []Option{WithHooks(gate("b"), gate("a"))}, "[permission b a]"},
		{"hooks:\n" + outside, []Option{WithHooks(gate("a"))}, "[permission a outside]"},
		{"hooks:\n" + outside + "  - builtin: a\n", []Option{WithHooks(gate("a", "b"))}, "[permission b outside a]"},
		{"hooks:\n  - builtin: a\n  - builtin: permission\n", []Option{WithHooks(gate("a"))}, "[a permission]"},
		{"hooks:\n" + outside, []Option{WithHooks(gate("outside"))}, `"outside" is the name of a plugin`},
		{"", []Option{WithHooks(gate("permission"))}, `hook "permission"`},
		{"", []Option{WithHooks(gate("a")), WithHooks(gate("a"))}, `hook "a"`},
		{"", []Option{WithHooks(gate(""))}, `hook ""`},
	} {
		cfg, err := load(t, tt.config, nil)
		must(t, err)
		plugins, err := newPlugins(cfg, nil)
		must(t, err)
		list, err := newExternalHooks(cfg, nowhere{}, nil, nil, nil, nil, nil)
		must(t, err)
		set, err := list.arrange(inside(plugins, nil, filterNames(cfg), newOptions("", tt.given).hooks))
		if got := fmt.Sprint(namesOf(set.Gate), err); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.config, got, tt.want)
		}
	}
}
