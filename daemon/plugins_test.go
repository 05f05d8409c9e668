package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/daemon/config"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// pluginSite is a daemon whose configuration the test rewrites.
type pluginSite struct {
	*site
	t    *testing.T
	p    *proc
	n    int
	file string
	args []string
}

func newPluginSite(t *testing.T, config string, args ...string) *pluginSite {
	s := newSite(t, bashAllowed)
	file := filepath.Join(filepath.Dir(s.data), "config")
	p := &pluginSite{site: s, t: t, file: file, args: append([]string{"--config", file}, args...)}
	p.write(config)
	p.p = p.again()
	return p
}

// again starts a daemon with the data of the previous one.
func (p *pluginSite) again() *proc {
	p.t.Helper()
	return p.start(p.args...)
}

func (p *pluginSite) write(config string) {
	p.t.Helper()
	must(p.t, os.WriteFile(p.file, []byte(config), 0o600))
}

// reload reloads the daemon with a new configuration. want lists the changed settings and those that need a restart.
func (p *pluginSite) reload(config, want string) {
	p.t.Helper()
	p.write(config)
	got, err := p.p.admin.Reload(within(p.t), &tooldv1.ReloadRequest{})
	must(p.t, err)
	if text := fmt.Sprint(got.GetChanged(), got.GetNeedsRestart()); text != want {
		p.t.Errorf("reloaded %s, want %s", text, want)
	}
}

func (p *pluginSite) call(tool, arguments string) *tooldv1.ToolResult {
	p.t.Helper()
	p.n++
	spec := &tooldv1.CallSpec{
		Tool: tool, CallId: fmt.Sprint("plugin-tests-call-", p.n), Arguments: arguments, LingerNever: true, Run: &tooldv1.Run{RunId: "run"},
	}
	return lastFinished(execute(p.t, p.p, spec).last(p.t)).GetResult()
}

func TestRatelimitSettings(t *testing.T) {
	p := newPluginSite(t, "ratelimit: [{name: searches, tools: [glob], by: [principal], calls: 1, per: 1h}]\n")
	glob := func() *tooldv1.ToolError { return p.call("glob", `{"pattern":"*"}`).GetError() }
	if e := glob(); e != nil {
		t.Fatalf("the first call: %v", e)
	}
	e := glob()
	if e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_RESOURCE_EXHAUSTED || e.GetReason() != "RATE_LIMITED" || !e.GetRetryable() || e.GetRetryAfter().GetSeconds() < 3500 {
		t.Errorf("the second call: %v", e)
	}
	if e := p.call("grep", `{"pattern":"x"}`).GetError(); e != nil {
		t.Errorf("another tool: %v", e)
	}
	p.write("ratelimit: [{name: searches, calls: 0, per: 1h}]\n")
	if _, err := p.p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); reasonOf(err) != "CONFIG_INVALID" || !strings.Contains(err.Error(), `ratelimit[0].calls: 0 is not between 1 and 1000000 (`) {
		t.Errorf("a wrong limit: %v", err)
	}
	p.reload("ratelimit: [{name: other, tools: [glob], calls: 5, per: 1h}]\n", "[ratelimit] []")
	if e := glob(); e != nil {
		t.Errorf("after the reload: %v", e)
	}
}

func TestLoopguardSettings(t *testing.T) {
	p := newPluginSite(t, "loopguard: {repeats: 2, failures: 1}\n")
	glob := func() *tooldv1.ToolError { return p.call("glob", `{"pattern":"*"}`).GetError() }
	for range 2 {
		if e := glob(); e != nil {
			t.Fatal(e)
		}
	}
	e := glob()
	if e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_RESOURCE_EXHAUSTED || e.GetReason() != "REPEATED_CALL" || !strings.Contains(e.GetMessage(), "change the arguments") {
		t.Errorf("the third call: %v", e)
	}
	if e := p.call("read", `{"path":"no-such-file"}`).GetError(); e.GetCode() != tooldv1.ErrorCode_ERROR_CODE_EXECUTION_FAILED {
		t.Fatalf("a file that is not there: %v", e)
	}
	if e := p.call("read", `{"path":"neither"}`).GetError(); e.GetReason() != "REPEATED_FAILURE" {
		t.Errorf("after a failure: %v", e)
	}
	if _, err := p.p.calls.EndRun(within(t), &tooldv1.EndRunRequest{RunId: "run"}); err != nil {
		t.Fatal(err)
	}
	if e := glob(); e != nil {
		t.Errorf("the run began anew: %v", e)
	}
	p.reload("loopguard: {calls: 1}\n", "[loopguard] []")
	if e := glob(); e.GetReason() != "TOO_MANY_CALLS" {
		t.Errorf("after the reload: %v", e)
	}
}

func TestCacheSettings(t *testing.T) {
	p := newPluginSite(t, "cache: {rules: [{tools: [glob], ttl: 1h}]}\n")
	glob := func() *tooldv1.ToolResult { return p.call("glob", `{"pattern":"*"}`) }
	if r := glob(); r.GetError() != nil || r.GetMetadata()["cache_call_id"] != "" {
		t.Fatalf("the first call: %v", r)
	}
	must(t, os.WriteFile(filepath.Join(p.workspace, "new.txt"), nil, 0o600))
	second := glob()
	if second.GetMetadata()["cache_call_id"] != "plugin-tests-call-1" || strings.Contains(second.GetMessage(), "new.txt") {
		t.Errorf("the second call: %v", second)
	}
	c, err := p.p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: "plugin-tests-call-2"})
	must(t, err)
	if text := c.String(); !strings.Contains(text, "from the cache: the result of call plugin-tests-call-1") || len(c.GetCall().GetAttempts()) != 0 ||
		c.GetCall().GetExecuted() != tooldv1.Executed_EXECUTED_NOT_STARTED || c.GetCall().GetStatus() != tooldv1.CallStatus_CALL_STATUS_SUCCEEDED {
		t.Errorf("the record does not say it: %s", text)
	}
	p.write("cache: {rules: [{tools: [glob], ttl: 1h, documents: [THREAD/todo]}]}\nlog: {level: debug}\n")
	if _, err := p.p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); reasonOf(err) != "CONFIG_INVALID" || !strings.Contains(err.Error(), "needs a restart") {
		t.Errorf("documents: %v", err)
	}
	p.reload("cache: {rules: [{tools: [glob], ttl: 2h}]}\n", "[cache] []")
	if r := glob(); !strings.Contains(r.GetMessage(), "new.txt") {
		t.Errorf("after the reload: %v", r)
	}
	if _, err := p.p.admin.Purge(within(t), &tooldv1.PurgeRequest{CallIds: []string{"plugin-tests-call-3"}}); err != nil {
		t.Fatal(err)
	}
	if r := glob(); r.GetMetadata()["cache_call_id"] != "" {
		t.Errorf("what was purged is given again: %v", r)
	}
}

func TestRemindSettings(t *testing.T) {
	p := newPluginSite(t, "remind: [{name: look, text: Look closer., tools: [glob], cooldown: 1h}]\n")
	message := func() string { return p.call("glob", `{"pattern":"*"}`).GetMessage() }
	if first, second := message(), message(); !strings.HasSuffix(first, "\n\nReminder: Look closer.") || strings.Contains(second, "Reminder") {
		t.Errorf("the model reads %q, then %q", first, second)
	}
	p.reload("remind: [{name: other, text: Look again., tools: [glob]}]\n", "[remind] []")
	if got := message(); !strings.HasSuffix(got, "Reminder: Look again.") {
		t.Errorf("after the reload the model reads %q", got)
	}
}

// T111: DescribeCall uses no budget, however often it is called.
func TestT111DescribeSpendsNoBudget(t *testing.T) {
	p := newPluginSite(t, "ratelimit: [{name: one, calls: 1, per: 1h}]\nloopguard: {repeats: 1, calls: 1}\n")
	for range 500 {
		d, err := p.p.calls.DescribeCall(within(t), &tooldv1.DescribeCallRequest{Spec: &tooldv1.CallSpec{
			Tool: "glob", Arguments: `{"pattern":"*"}`, Run: &tooldv1.Run{RunId: "run"},
		}})
		if err != nil || d.GetOutcome() != tooldv1.VerdictAction_VERDICT_ACTION_ALLOW {
			t.Fatal(d.GetOutcome(), err)
		}
	}
	if e := p.call("glob", `{"pattern":"*"}`).GetError(); e != nil {
		t.Errorf("the first call: %v", e)
	}
	if e := p.call("glob", `{"pattern":"*"}`).GetError(); e.GetReason() != "RATE_LIMITED" {
		t.Errorf("the second call: %v", e)
	}
}

func TestPluginsNeedARestart(t *testing.T) {
	p := newPluginSite(t, "")
	p.reload("ratelimit: [{name: all, calls: 1, per: 1h}]\n", "[] [ratelimit]")
	for range 2 {
		if e := p.call("glob", `{"pattern":"*"}`).GetError(); e != nil {
			t.Fatal(e)
		}
	}
}

// An error names each invalid setting. The output of config show is a file with the same meaning.
func TestPluginSettings(t *testing.T) {
	for config, want := range map[string]string{
		"ratelimit: [{calls: 1, per: 1h}]":                           `ratelimit[0].name: is required: name that the model reads`,
		"ratelimit: [{name: a, calls: 1, per: 10}]":                  `"10" is not a duration`,
		"ratelimit: [{name: a, calls: 1, per: 1m, by: [subject]}]":   `by: "subject" is not one of namespace, principal, tool, run (`,
		"cache: {rules: [{tools: [x], ttl: 1m, documents: [todo]}]}": `cache.rules[0].documents[0]: "todo" is not RUN/key`,
		"cache: {rules: [{tools: [x]}]}":                             "cache.rules[0].ttl: 0s is not between 1s and 1d (",
		"remind: [{name: a, text: b, result: '('}]":                  "remind[0].result: error parsing regexp",
		"loopguard: {repeats: 30}":                                   "loopguard: repeats: 30 identical calls",
		"ratelimit: [{name: a, cals: 1}]":                            `did you mean "ratelimit[0].calls"?`,
	} {
		cfg, err := load(t, config+"\n", nil)
		if err == nil {
			_, err = newPlugins(cfg, nil)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", config, err, want)
		}
	}
	cfg, err := load(t, "ratelimit: [{name: a, tools: [x*, y], by: [run], calls: 3, per: 90s, burst: 2}]\n", nil)
	must(t, err)
	again, err := load(t, config.Text(cfg), nil)
	must(t, err)
	if a, b := fmt.Sprint(cfg.Ratelimit), fmt.Sprint(again.Ratelimit); a != b || len(cfg.Ratelimit) != 1 {
		t.Errorf("shown as %s, was %s", b, a)
	}
}
