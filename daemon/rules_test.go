package daemon

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/toold-dev/toold/cli"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

const tried = `rules:
  - {name: git, action: allow, tools: ["bash(git *)"]}
  - {name: pushes, action: ask always, tools: ["bash(git push*)"], count: 2, four_eyes: true}
  - {name: keys, action: deny, tools: ['write(*.pem)', 'read(*.pem)'], reason: Keys stay where they are.}
  - {name: typo, action: deny, tools: ['write(paht = "x")']}
  - {name: nothing, action: deny, tools: [todo_read]}
  - {name: end, action: block, tools: ["mcp_*"], tiers: [ESCALATE]}
`

func TestRulesTest(t *testing.T) {
	s := newSite(t, tried)
	tests := []struct {
		name, in string
		args     []string
		out      []string
	}{
		{"allowed", "", []string{"bash", "command=git status"}, []string{"ALLOW  the call runs", "rule     git", "/rules.yaml:2:5", "other arguments"}},
		{"asked", "", []string{"bash", "command=git push -f"}, []string{"ASK  the call waits", "pushes", "approver, 2 people, not the caller", "Allow bash: "}},
		{"by default", "", []string{"bash", "command=make"}, []string{"ASK  ", "no rule matches this call, and the default for "}},
		{"denied", "", []string{"write", "path=a/x.pem", "content="}, []string{"DENY  the call fails", "keys", "Denied: Keys stay where they are."}},
		{"in plan mode", "", []string{"bash", "command=git commit", "--mode", "plan"}, []string{"DENY  ", "the mode plan allows only calls that change nothing"}},
		{"in plan mode, what reads", "", []string{"bash", "command=git status", "--mode", "plan"}, []string{"ALLOW  "}},
		{"a compound command", "", []string{"bash", "command=git add . && make"}, []string{"ASK  ", "command", "make", "\n\ngit add .\nRULE", "\n\nmake\nRULE"}},
		{"unattended", "", []string{"bash", "command=make", "--unattended"}, []string{"DENY  ", "no person is present to"}},
		{"hidden", "", []string{"todo_read"}, []string{"DENY  the tool is hidden: a call of it finds no tool", "nothing"}},
		{"a tool that is not there", "", []string{"mcp_x", "--tier", "ESCALATE", "--source", "mcp"}, []string{"BLOCK  ", "end"}},
		{"no rule for a tool", "", []string{"grep", "pattern=x"}, []string{"ALLOW  ", "No rule names grep."}},
		{"arguments from standard input", `{"path":"x.pem"}`, []string{"read", "-"}, []string{"DENY  ", "read(*.pem)"}},
		{"a terminal's escapes", "", []string{"mcp_x\x1b[2J"}, []string{`mcp_x\x1b[2J`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := (&run{in: tt.in}).do(t, s.data, append([]string{"rules", "test", "--rules", s.rules, "--workspace", s.workspace}, tt.args...)...)
			if r.code != 0 || !strings.Contains(r.err, "rules.yaml:5:5: typo: names the argument paht, which none of its tools has (write)") {
				t.Errorf("exit code %d: %s", r.code, r.err)
			}
			for _, want := range tt.out {
				if !strings.Contains(r.out, want) {
					t.Errorf("no %q in\n%s", want, r.out)
				}
			}
			_, table, _ := strings.Cut(r.out, "\n\n")
			for line := range strings.Lines(table) {
				if len([]rune(line)) > 81 {
					t.Errorf("wider than 80 columns: %s", line)
				}
			}
		})
	}
}

// "rules test" asks a running daemon for the tools of its workers and MCP servers. It suggests the right name when a rule has a name with
// one wrong character. It works without a workspace.
func TestRulesTestAsksTheDaemon(t *testing.T) {
	served := &toolList{tools: []*tooldv1.Descriptor{{
		Id: "deploy", Source: "worker:default/p", Parameters: `{"type":"object","properties":{"target":{"type":"string"}},"required":["target"]}`,
		Effects: &tooldv1.Assessment{Mutability: tooldv1.Mutability_MUTABILITY_READ_ONLY, Safety: tooldv1.Safety_SAFETY_READ_ONLY, Tier: tooldv1.Tier_TIER_OBSERVE},
	}}}
	dir, err := os.MkdirTemp("", "toold") // the path of t.TempDir may be too long for a socket
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	lis, err := net.Listen("unix", filepath.Join(dir, "toold.sock"))
	must(t, err)
	server := grpc.NewServer()
	tooldv1.RegisterToolServiceServer(server, served)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(lis) }()
	t.Cleanup(func() { server.Stop(); must(t, <-ended) })
	rules, nowhere := filepath.Join(t.TempDir(), "rules.yaml"), filepath.Join(t.TempDir(), "nowhere")
	must(t, os.WriteFile(rules, []byte("rules:\n  - {name: keys, action: deny, tools: [reed]}\n  - {name: prod, action: deny, tools: ['deploy(target = \"prod\")']}\n"), 0o600))
	test := func(args ...string) *run {
		return new(run).do(t, dir, append([]string{"rules", "test", "--rules", rules, "--workspace", nowhere}, args...)...)
	}
	r := test("deploy", "target=prod")
	if r.code != 0 || !strings.Contains(r.out, "DENY") || !strings.Contains(r.err, "rules.yaml:2:5: keys: names no tool reed; did you mean read?") || strings.Contains(r.err, "there is no tool") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if r = test("deploy", "target=stage"); r.code != 0 || !strings.Contains(r.out, "ALLOW") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if r = test("deploy", "traget=prod"); r.code != cli.ExitUsage || !strings.Contains(r.err, "target: is required") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("a workspace was made")
	}
}

// toolList is a fake daemon that lists tools.
type toolList struct {
	tooldv1.UnimplementedToolServiceServer
	tools []*tooldv1.Descriptor
}

func (l *toolList) ListTools(context.Context, *tooldv1.ListToolsRequest) (*tooldv1.ListToolsResponse, error) {
	return &tooldv1.ListToolsResponse{Tools: l.tools}, nil
}

func TestRulesTestAsJSON(t *testing.T) {
	s := newSite(t, tried)
	r := new(run).do(t, s.data, "rules", "test", "bash", "command=git push", "--rules", s.rules, "--workspace", s.workspace, "-o", "json")
	var got struct {
		Verdict, Action, Rule, Why string
		Line, Count                int
		Tried                      []struct {
			Rule  string
			Holds bool
		}
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	if got.Verdict != "SUSPEND" || got.Action != "ask always" || got.Rule != "pushes" || got.Line != 3 || got.Count != 2 || len(got.Tried) != 2 || !got.Tried[0].Holds {
		t.Errorf("%+v", got)
	}
}

func TestRulesTestRefuses(t *testing.T) {
	s := newSite(t, "rules:\n  - action: deny\n    tools: ['bash(']\n")
	good := newSite(t, tried)
	for _, tt := range []struct {
		rules string
		args  []string
		want  string
	}{
		{s.rules, []string{"bash", "command=x"}, "rules.yaml:3:18: want tool, tool(glob)"},
		{good.rules, []string{"bash", "comand=x"}, "command: is required"},
		{good.rules, []string{"bash", "command"}, "neither key=value nor key:=json"},
		{good.rules, []string{"bash", "command=x", "--tier", "LOW"}, "OBSERVE, CONFIRM, ESCALATE"},
		{good.rules, []string{"bash", "command=x", "--json", "{}"}, "contains all arguments"},
		{good.rules, []string{}, "needs a TOOL"},
	} {
		r := new(run).do(t, good.data, append([]string{"rules", "test", "--rules", tt.rules, "--workspace", good.workspace}, tt.args...)...)
		if r.code != cli.ExitUsage || !strings.Contains(r.err, tt.want) {
			t.Errorf("%q: exit code %d: %s, want %q", tt.args, r.code, r.err, tt.want)
		}
	}
}

func TestConfigCheckWarnsOfRules(t *testing.T) {
	s := newSite(t, tried)
	r := new(run).do(t, s.data, "config", "check", "--rules", s.rules, "--workspace", s.workspace)
	if r.code != 0 || !strings.Contains(r.err, "which none of its tools has") || !strings.Contains(r.out, "the configuration is valid") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}
