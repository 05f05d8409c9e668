package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/toold-dev/toold/daemon/config"
	"github.com/toold-dev/toold/hook"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// hookProgram writes an executable script and returns its path.
func hookProgram(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

// TestHooksOfCommands checks a hook that is a program. It decides about the calls that match its entry in the current configuration.
func TestHooksOfCommands(t *testing.T) {
	friday := hookProgram(t, "friday", `grep -q '"command":"deploy' || exit 0; echo "not on Fridays" >&2; exit 2`)
	stop := hookProgram(t, "stop", `cat >/dev/null; echo '{"verdict":"block","reason":"stop"}'`)
	p := newPluginSite(t, fmt.Sprintf("hooks:\n  - name: friday\n    command: [%s]\n    match: {tools: [bash]}\n", friday))
	if e := p.call("bash", `{"command":"deploy now"}`).GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_DENIED || e.GetMessage() != "not on Fridays" {
		t.Errorf("a call that the hook refuses: %v", e)
	}
	for _, arguments := range []string{`{"command":"true"}`} {
		if e := p.call("bash", arguments).GetError(); e != nil {
			t.Errorf("another call: %v", e)
		}
	}
	if e := p.call("glob", `{"pattern":"deploy*"}`).GetError(); e != nil {
		t.Errorf("another tool: %v", e)
	}
	p.write("hooks:\n  - name: friday\n    command: [/nonexistent]\n")
	if _, err := p.p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); reasonOf(err) != "CONFIG_INVALID" || !strings.Contains(err.Error(), "config:2:5") {
		t.Errorf("a program that is not there: %v", err)
	}
	if r := new(run).do(t, p.data, "hooks", "-o", "table"); r.code != 0 || !strings.Contains(r.out, "friday") || !strings.Contains(r.out, "good") {
		t.Errorf("toold hooks: %+v", r)
	}
	p.reload("hooks: []\n", "[hooks] []")
	if e := p.call("bash", `{"command":"true # deploy"}`).GetError(); e != nil {
		t.Errorf("without the hook: %v", e)
	}
	p.reload(fmt.Sprintf("hooks:\n  - {name: stop, command: [%s]}\n", stop), "[hooks] []")
	if e := p.call("glob", `{"pattern":"*"}`).GetError(); e.GetMessage() != "Blocked: stop" || !e.GetTerminateRun() {
		t.Errorf("a hook that blocks: %v", e)
	}
}

// TestHooksOfServices checks that a hook can be a service instead of a program. GetInfo, the metrics and the log show the health of the
// service.
func TestHooksOfServices(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "token"), []byte("hunter2\n"), 0o600))
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	policy := &policyServer{}
	server := grpc.NewServer()
	tooldv1.RegisterHookServiceServer(server, policy)
	go server.Serve(lis)
	defer server.Stop()
	config := fmt.Sprintf("metrics: {listen: '127.0.0.1:0'}\nhooks:\n  - name: policy\n    kinds: [gate, filter]\n    remote: {address: 'unix:%s/s', token_file: %s/token}\n", dir, dir)
	p := newPluginSite(t, config)
	if e := p.call("bash", `{"command":"rm -r x"}`).GetError(); e.GetMessage() != "nothing is removed here" {
		t.Errorf("a call that the service refuses: %v", e)
	}
	if got := p.call("bash", `{"command":"echo a secret"}`); got.GetError() != nil || strings.Contains(got.String(), "secret") {
		t.Errorf("a result that the service filters: %v", got)
	}
	if token := policy.token.Load(); token != "Bearer hunter2" {
		t.Errorf("token %v", token)
	}
	info, err := p.p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
	if h := info.GetHooks(); len(h) != 1 || h[0].GetName() != "policy" || h[0].GetFailing() || h[0].GetAsked() < 3 || h[0].GetPlace() != "unix:"+dir+"/s" {
		t.Errorf("state %v", h)
	}
	server.Stop()
	if e := p.call("bash", `{"command":"true"}`).GetError(); e.GetReason() != "HOOK_FAILED" {
		t.Errorf("without the service: %v", e)
	}
	info, err = p.p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
	if h := info.GetHooks(); !h[0].GetFailing() || h[0].GetLastError() == "" || h[0].GetFailed() == 0 {
		t.Errorf("state %v", h)
	}
	p.p.logs(t, "hook fails")
	if _, text := getMetrics(t, p.p, http.MethodGet, "/metrics", p.p.ready.Metrics); !strings.Contains(text, `toold_hook_failing{hook="policy"} 1`) {
		t.Errorf("metrics:\n%s", text)
	}
	p.reload(config+"  - {name: stop, command: [/bin/false], on_failure: allow}\n", "[hooks] []")
	info, err = p.p.admin.GetInfo(within(t), &tooldv1.GetInfoRequest{})
	must(t, err)
	if h := info.GetHooks(); len(h) != 2 || h[0].GetFailed() == 0 {
		t.Errorf("what did not change was forgotten: %v", h)
	}
}

// TestHookTokenByReference checks a service whose token is a reference to a secret. The reference is resolved for each question, if the
// hook may use the secret.
func TestHookTokenByReference(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	must(t, os.WriteFile(token, []byte("hunter2-hunter2\n"), 0o600))
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	policy := &policyServer{}
	server := grpc.NewServer()
	tooldv1.RegisterHookServiceServer(server, policy)
	go server.Serve(lis)
	defer server.Stop()
	config := func(tools string) string {
		return fmt.Sprintf("hooks:\n  - name: policy\n    kinds: [gate]\n    remote: {address: 'unix:%s/s', token: 'secret://policy'}\nsecrets:\n  - {name: policy, file: %q, allow: [{tools: ['%s'], parameters: [token]}]}\n", dir, token, tools)
	}
	p := newPluginSite(t, config("hook:policy"))
	for _, want := range []string{"hunter2-hunter2", "another-token"} {
		must(t, os.WriteFile(token, []byte(want+"\n"), 0o600))
		if e := p.call("bash", `{"command":"true"}`).GetError(); e != nil {
			t.Errorf("%v", e)
		}
		if got := policy.token.Load(); got != "Bearer "+want {
			t.Errorf("token %v, want %s", got, want)
		}
	}
	p.reload(config("hook:other"), "[secrets] []")
	if e := p.call("bash", `{"command":"true"}`).GetError(); e.GetReason() != "HOOK_FAILED" || strings.Contains(e.String(), "another-token") {
		t.Errorf("who is not entitled: %v", e)
	}
	if strings.Contains(p.p.log.String(), "another-token") {
		t.Error("the token is in the log")
	}
}

// TestT79TokenOfAHookIsNowhere (T79) checks a service that repeats its token in its answers. Neither the token from a file, nor the next
// token after a reload, may appear in answers, files or the log.
func TestT79TokenOfAHookIsNowhere(t *testing.T) {
	dir := t.TempDir()
	const byFile, replaced = "token-in-the-file", "token-that-came-next"
	must(t, os.WriteFile(filepath.Join(dir, "token"), []byte(byFile+"\n"), 0o600))
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	server := grpc.NewServer()
	tooldv1.RegisterHookServiceServer(server, &policyServer{repeats: true})
	go server.Serve(lis)
	defer server.Stop()
	config := fmt.Sprintf("hooks:\n  - name: policy\n    kinds: [gate]\n    remote: {address: 'unix:%s/s', token_file: %s/token}\n", dir, dir)
	p := newPluginSite(t, config)
	shown := p.call("bash", `{"command":"rm -r x"}`).String()
	must(t, os.WriteFile(filepath.Join(dir, "token"), []byte(replaced+"\n"), 0o600))
	p.reload(config, "[hooks] []")
	shown += p.call("bash", `{"command":"rm -r x"}`).String()
	if n := strings.Count(shown, `message:"nothing is removed here: it was asked with Bearer [redacted`); n != 2 {
		t.Errorf("the answers do not contain the service's answer: %s", shown)
	}
	described, err := p.p.calls.DescribeCall(within(t), &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{Tool: "bash", Arguments: `{"command":"rm -r x"}`}})
	must(t, err)
	if v := described.GetVerdicts(); len(v) == 0 || !strings.Contains(described.String(), "it was asked with Bearer [redacted") {
		t.Errorf("described with %v", described)
	}
	shown += described.String()
	journal := filesOf(t, p.data) // before the write-ahead log is removed
	p.p.signal(syscall.SIGTERM)
	p.p.wait(hangs)
	for source, text := range map[string]string{"answers": shown, "journal": string(journal), "log": p.p.log.String(), "files": string(filesOf(t, p.data))} {
		for _, key := range []string{byFile, replaced} {
			if strings.Contains(text, key) {
				t.Errorf("%s is in the %s", key, source)
			}
		}
	}
}

// policyServer refuses calls that remove files and cuts the secret from results.
type policyServer struct {
	tooldv1.UnimplementedHookServiceServer
	token   atomic.Value
	repeats bool // the refusals of the server quote its token
}

func (s *policyServer) Gate(ctx context.Context, q *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		s.token.Store(strings.Join(md.Get("authorization"), " "))
	}
	if strings.Contains(q.GetInput().GetArguments(), "rm ") {
		reason := "nothing is removed here"
		if s.repeats {
			reason += ": it was asked with " + s.token.Load().(string)
		}
		return &tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Deny{Deny: &tooldv1.GateDeny{Reason: reason}}}, nil
	}
	return &tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Allow{Allow: &tooldv1.GateAllow{}}}, nil
}

func (s *policyServer) Filter(stream grpc.BidiStreamingServer[tooldv1.FilterRequest, tooldv1.FilterResponse]) error {
	for {
		q, err := stream.Recv()
		if err != nil {
			return err
		}
		var events []*tooldv1.FilterEvent
		if q.GetEvent().GetFinished() != nil {
			events = []*tooldv1.FilterEvent{{Event: &tooldv1.FilterEvent_Finished{Finished: &tooldv1.HookResult{Message: "done"}}}}
		}
		if q.GetBegin() == nil {
			if err := stream.Send(&tooldv1.FilterResponse{Events: events}); err != nil {
				return err
			}
		}
	}
}

// TestHookSettings checks that an error names the setting that is invalid. It also checks that the output of config show is a file with the
// same meaning.
func TestHookSettings(t *testing.T) {
	program := hookProgram(t, "program", "exit 0")
	for config, want := range map[string]string{
		"hooks:\n  - {name: a}":                                                               "hooks[0]: want either a command or a remote service (",
		"hooks:\n  - name: a b\n    command: [/x]":                                            "toold.yaml:2:11)",
		"hooks:\n  - name: a\n    comand: [/x]":                                               `toold.yaml:3:5: unknown setting "hooks[0].comand"; did you mean "hooks[0].command"?`,
		"hooks:\n  - {name: a, command: [/x], kinds: [gate, fliter]}":                         `hooks[0].kinds: "fliter" is not one of rewrite, gate`,
		"hooks:\n  - {name: a, command: [/x], on_failure: maybe}":                             `hooks[0].on_failure: "maybe" is not one of refuse, allow, block`,
		"hooks:\n  - {name: a, command: [/x], kinds: [after], on_failure: block}":             "a before or after hook cannot block",
		"hooks:\n  - {name: a, command: [/x], deadline: 1h}":                                  "hooks[0].deadline: 1h is not between",
		"hooks:\n  - {name: a, command: [/x], documents: [x]}":                                `"x" is not RUN/key, THREAD/key or NAMESPACE/key`,
		"hooks:\n  - {name: a, command: [/x], match: {safety: [BAD]}}":                        `"BAD" is not one of READ_ONLY`,
		"hooks:\n  - {name: a, command: [" + program + "]}\n  - {name: a, command: [/x]}":     `hooks[1].name: "a" is set twice`,
		"hooks:\n  - {builtin: permission, command: [/x]}":                                    "must have no other field",
		"hooks:\n  - {name: a, command: [/x]}":                                                "/x",
		"hooks:\n  - {name: permission, command: [" + program + "]}":                          `"permission" is the name of a plugin of the daemon`,
		"hooks:\n  - {name: a, command: [x]}":                                                 "hooks[0].command: want the absolute path of a program",
		"hooks:\n  - {name: a, remote: {address: 10.0.0.1}}":                                  `address "10.0.0.1" is neither host:port nor unix:/path`,
		"hooks:\n  - {name: a, remote: {address: 'h:1', ca: /nonexistent}}":                   "/nonexistent",
		"hooks:\n  - {name: a, remote: {address: 'h:1', plaintext: true, server_name: x}}":    "plaintext and TLS exclude each other",
		"hooks:\n  - {name: a, remote: {address: 'h:1'}, kinds: [filter], on_failure: allow}": "events that a filter did not see are never published",
		"hooks:\n  - {builtin: cache}":                                                        `there is no plugin "cache"; there are log, permission`,
		"hooks:\n  - {name: a, command: [" + program + "], env: [NO_SUCH_VARIABLE]}":          "the daemon's environment has no variable NO_SUCH_VARIABLE",
	} {
		cfg, err := load(t, config+"\n", nil)
		if err == nil {
			_, err = check(t.Context(), cfg, options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\nerror %v, want %q", config, err, want)
		}
	}
	cfg, err := load(t, "hooks:\n  - {name: a, command: ["+program+", x], kinds: [gate, after], env: [A=b], match: {tools: [b*]}, deadline: 2s, at_once: 3}\n  - builtin: permission\n", nil)
	must(t, err)
	text := config.Text(cfg)
	again, err := load(t, strings.ReplaceAll(text, "(hidden)", "b"), nil)
	must(t, err)
	if a, b := fmt.Sprint(cfg.Hooks), fmt.Sprint(again.Hooks); a != b || len(cfg.Hooks) != 2 {
		t.Errorf("shown as %s, was %s", b, a)
	}
}

// TestHookExample checks that the example configuration of hooks is valid, except for its paths.
func TestHookExample(t *testing.T) {
	text, err := os.ReadFile("../examples/hooks/toold.yaml")
	must(t, err)
	dir, err := filepath.Abs("../examples/hooks")
	must(t, err)
	cfg, err := load(t, strings.ReplaceAll(string(text), "/etc/toold/hooks", dir), nil)
	must(t, err)
	list, err := newExternalHooks(cfg, nowhere{}, nil, nil, nil, nil, nil)
	must(t, err)
	for _, h := range list.hooks() {
		if service, ok := h.hook.(io.Closer); ok {
			must(t, service.Close())
		}
	}
}

// TestHookOrder checks the order of hooks. Hooks that the configured list does not name come first. The named hooks follow in the order of
// the list.
func TestHookOrder(t *testing.T) {
	program := hookProgram(t, "program", "exit 0")
	entry := func(name string) string {
		return "  - {name: " + name + ", command: [" + program + "], kinds: [gate, admit]}\n"
	}
	for config, want := range map[string]string{
		"":                                   "[permission] [ratelimit]",
		"hooks:\n" + entry("a") + entry("b"): "[permission a b] [ratelimit a b]",
		"hooks:\n" + entry("a") + "  - builtin: permission\n":                                      "[a permission] [ratelimit a]",
		"hooks:\n  - builtin: ratelimit\n" + entry("a") + "  - builtin: permission\n" + entry("b"): "[a permission b] [ratelimit a b]",
	} {
		cfg, err := load(t, "ratelimit: [{name: x, calls: 1, per: 1h}]\n"+config, nil)
		must(t, err)
		plugins, err := newPlugins(cfg, nil)
		must(t, err)
		list, err := newExternalHooks(cfg, nowhere{}, nil, nil, nil, nil, nil)
		must(t, err)
		set, err := list.arrange(inside(plugins, nil, filterNames(cfg), hook.Set{}))
		must(t, err)
		if got := fmt.Sprint(namesOf(set.Gate), namesOf(set.Admit)); got != want {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
}
