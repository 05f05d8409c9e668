package daemon

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toold-dev/toold/cli"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func held(i *tooldv1.Isolation, name string) bool {
	for _, f := range i.GetFacts() {
		if f.GetName() == name {
			return f.GetHeld()
		}
	}
	return false
}

// TestFactsAreOfCallsThatStartProcesses (P12) checks the isolation facts in the records of calls. Only calls that start processes have
// them.
func TestFactsAreOfCallsThatStartProcesses(t *testing.T) {
	s := newSite(t, bashAllowed)
	p := s.start()
	for _, one := range []struct {
		spec     *tooldv1.CallSpec
		required tooldv1.IsolationLevel
		facts    bool
	}{
		{bash("facts", "true"), tooldv1.IsolationLevel_ISOLATION_LEVEL_FULL, true},
		{&tooldv1.CallSpec{Tool: "glob", CallId: "serve-tests-call-glob", Arguments: `{"pattern":"*"}`}, tooldv1.IsolationLevel_ISOLATION_LEVEL_NONE, false},
	} {
		resp, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: one.spec})
		must(t, err)
		isolation := resp.GetCall().GetIsolation()
		if isolation.GetRequired() != one.required || (len(isolation.GetFacts()) > 0) != one.facts {
			t.Errorf("%s: %v, %v", one.spec.GetTool(), resp.GetCall().GetStatus(), isolation)
		}
		for _, name := range []string{"fs_read", "fs_write", "net", "processes_killed"} {
			if held(isolation, name) != one.facts {
				t.Errorf("%s: %s is not as it should be: %v", one.spec.GetTool(), name, isolation)
			}
		}
		preview, err := p.calls.DescribeCall(within(t), &tooldv1.DescribeCallRequest{Spec: one.spec})
		must(t, err)
		if got := preview.GetIsolation().GetFacts(); (len(got) > 0) != one.facts {
			t.Errorf("%s would have the facts %v", one.spec.GetTool(), got)
		}
	}
}

// In a container with a small init process, the daemon is process 2. In the process namespace of a canary, process 2 is the canary itself.
func TestFactsOfProcess2(t *testing.T) {
	s := newSite(t, bashAllowed)
	s.through = []string{"unshare", "-Urpf", "--mount-proc", "--kill-child", "sh", "-c", `"$@" & wait $!`, "sh"}
	p := s.start()
	if p.ready.PID != 2 {
		t.Fatalf("the daemon is process %d", p.ready.PID)
	}
	got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: bash("facts-2", "true")})
	must(t, err)
	if i := got.GetCall().GetIsolation(); !held(i, "ipc") || !held(i, "processes_killed") {
		t.Errorf("%v", i)
	}
}

// T41, T42: without user namespaces, a command does not run unless the operator configured less isolation.
func TestNothingRunsWithLess(t *testing.T) {
	s := newSite(t, bashAllowed)
	s.through = []string{"unshare", "-Ur", "sh", "-c", `echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"`, "sh"}
	for _, tt := range []struct {
		profile, code, reason string
		killed                bool
	}{
		{"default", "ERROR_CODE_SANDBOX", "fs_read", false},
		{"landlock", "ERROR_CODE_UNSPECIFIED", "", false},
		{"none", "ERROR_CODE_UNSPECIFIED", "", false},
	} {
		t.Run(tt.profile, func(t *testing.T) {
			p := s.start("--bash-profile", tt.profile)
			c := p.do(bash("less-"+tt.profile, "echo ran > "+tt.profile))
			e := c.GetResult().GetError()
			if e.GetCode().String() != tt.code || e.GetReason() != tt.reason || held(c.GetIsolation(), "processes_killed") {
				t.Errorf("%v: %v, %v", c.GetStatus(), e, c.GetIsolation())
			}
			_, err := os.Stat(filepath.Join(s.workspace, tt.profile))
			if ran := err == nil; ran != (tt.reason == "") {
				t.Errorf("ran: %t", ran)
			}
			if got := held(c.GetIsolation(), "fs_read"); got != (tt.profile == "landlock") {
				t.Errorf("files are isolated: %t", got)
			}
			p.kill()
		})
	}
}

func TestSandboxCommands(t *testing.T) {
	dir := t.TempDir()
	workspace := filepath.Join(dir, "work")
	must(t, os.Mkdir(workspace, 0o755))
	at := []string{"--workspace", workspace, "--data", filepath.Join(dir, "data")}
	do := func(args ...string) *run {
		return new(run).do(t, dir, append([]string{"sandbox"}, args...)...)
	}
	r := do(append([]string{"check"}, at...)...)
	if r.code != 0 || !strings.Contains(r.out, "processes_killed  yes  process namespace\n") {
		t.Errorf("check: %d\n%s%s", r.code, r.out, r.err)
	}
	r = do(append(append([]string{"run"}, at...), "--", "sh", "-c", "cat /etc/shadow; echo $$ > x; cat x; exit 3")...)
	if r.code != 3 || r.out != "2\n" || !strings.Contains(r.err, "shadow") {
		t.Errorf("run: %d\n%s%s", r.code, r.out, r.err)
	}
	r = do(append([]string{"check", "--profile", "unknown"}, at...)...)
	if r.code != cli.ExitUsage || !strings.Contains(r.err, "landlock") {
		t.Errorf("check of an unknown profile: %d\n%s%s", r.code, r.out, r.err)
	}
}

// T27: the profile of bash bounds the memory of all processes of a command together.
func TestT27OutOfMemory(t *testing.T) {
	s := newSite(t, bashAllowed)
	config := filepath.Join(filepath.Dir(s.rules), "toold.yaml")
	must(t, os.WriteFile(config, []byte("bash: {profile: small}\nsandbox: {profiles: [{name: small, memory_total: 67108864, cpus: 2}]}\n"), 0o600))
	p := s.start("--config", config)
	c := p.do(bash("hungry", "echo begun; for i in 1 2; do head -c 256M /dev/zero | tail -c 256M | wc -c & done; wait; exit 0"))
	e := c.GetResult().GetError()
	if !held(c.GetIsolation(), "mem_limit") {
		t.Logf("there is no control group for memory here: %v", c.GetIsolation())
		if e.GetReason() == "OOM" || !strings.Contains(c.GetResult().String(), "begun") {
			t.Errorf("%v", c.GetResult())
		}
		return
	}
	if e.GetReason() != "OOM" || !strings.Contains(e.GetMessage(), "out of memory") || !strings.Contains(e.GetMessage(), "begun") || !held(c.GetIsolation(), "cpu_limit") {
		t.Errorf("%v: %v, %v", c.GetStatus(), c.GetResult(), c.GetIsolation())
	}
}

// TestTakenPortErrorOmitsIsolation checks a daemon that ends at its start because its port is in use. It must not log anything about
// isolation, which it has not tested yet.
func TestTakenPortErrorOmitsIsolation(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer lis.Close()
	s := newSite(t, "")
	out, err := s.command("--listen-tcp", lis.Addr().String()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "address already in use") || strings.Contains(string(out), `"detail":""`) {
		t.Errorf("serve on a taken port: %v\n%s", err, out)
	}
}
