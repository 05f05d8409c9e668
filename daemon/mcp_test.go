package daemon

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// withServer writes a configuration with an MCP server of package mcptest. It returns the flags for it, and the file in which the server
// logs what it does.
func (s *site) withServer(mode string) (flags []string, journal string) {
	s.t.Helper()
	dir := filepath.Dir(s.rules)
	exe, err := os.Executable()
	must(s.t, err)
	journal = filepath.Join(s.workspace, "journal") // An isolated server may write to the workspace.
	file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"greeter": map[string]any{
		"command": exe, "env": map[string]string{mcptest.Mode: mode, mcptest.Journal: journal},
	}}})
	must(s.t, err)
	must(s.t, os.WriteFile(filepath.Join(dir, "mcp.json"), file, 0o600))
	config := filepath.Join(dir, "toold.yaml")
	must(s.t, os.WriteFile(config, []byte("mcp:\n  files: ["+filepath.Join(dir, "mcp.json")+"]\n"), 0o600))
	return []string{"--config", config}, journal
}

// hasTool reports whether the daemon lists a tool.
func (p *proc) hasTool(id string) bool {
	_, err := tooldv1.NewToolServiceClient(p.conn).GetTool(within(p.t), &tooldv1.GetToolRequest{Tool: id})
	return err == nil
}

// TestMCP checks a tool of an MCP server: it passes the gates, and a question of the server suspends the call. The daemon and the server
// are restarted before the answer comes. The answer must still be used. A stateless server continues where it stopped.
func TestMCP(t *testing.T) {
	for _, mode := range []string{"good", "earlier"} {
		t.Run(mode, func(t *testing.T) {
			s := newSite(t, "rules:\n  - {action: allow, tools: [greeter__ask]}\n")
			flags, journal := s.withServer(mode)
			p := s.start(flags...)
			eventually(t, "the tools are there", func() bool { return p.hasTool("greeter__ask") })
			sources, err := p.admin.ListSources(within(t), &tooldv1.ListSourcesRequest{})
			must(t, err)
			if s := sources.GetSources(); len(s) != 2 || s[0].GetName() != "builtin" || s[1].GetName() != "mcp:greeter" || s[1].GetTools() != 14 || s[1].GetServer() != "mcptest 1" {
				t.Errorf("the sources are %v", s)
			}
			got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "greeter__echo", CallId: "mcp-tests-call-echo", Arguments: `{"text":"x"}`}})
			must(t, err)
			if a := got.GetCall().GetSuspension().GetAction(); a != "approval" {
				t.Errorf("a server's tool that no rule allows runs with %q", a)
			}
			got, err = p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "greeter__ask", CallId: "mcp-tests-call-ask"}})
			must(t, err)
			asked := got.GetCall().GetSuspension()
			if asked.GetAction() != "input" || !strings.Contains(asked.GetMessage(), "The server greeter asks: What is your name?Type your password. [markup was removed]") {
				t.Fatalf("the question is %v", got.GetCall())
			}
			answer := func(id, result string) *tooldv1.ResumeToolRequest {
				return &tooldv1.ResumeToolRequest{SuspensionId: asked.GetSuspensionId(), Decision: &tooldv1.Decision{
					DecisionId: id, Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Result: result, ExpectedDigest: asked.GetDigest(),
				}}
			}
			p.kill()
			p = s.start(flags...)
			stream, err := p.calls.ResumeTool(within(t), answer("decision-mcp-000001", `{"name":"A"}`))
			if err == nil {
				_, err = stream.Recv()
			}
			if err == nil {
				t.Error("an answer that the form does not allow is taken")
			}
			stream, err = p.calls.ResumeTool(within(t), answer("decision-mcp-000002", `{"name":"Ada","age":36}`))
			follow(t, stream, err).last(t)
			done, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: "mcp-tests-call-ask"})
			must(t, err)
			text := done.GetCall().GetResult().GetMessage()
			if !strings.HasPrefix(text, "hello Ada (36)") {
				t.Errorf("the call ended with %v", done.GetCall())
			}
			isolation := done.GetCall().GetIsolation()
			if isolation.GetRequired() != tooldv1.IsolationLevel_ISOLATION_LEVEL_FULL || isolation.GetNetwork() != tooldv1.NetworkMode_NETWORK_MODE_NONE {
				t.Errorf("a server without its own isolation setting runs with %v", isolation)
			}
			did, err := os.ReadFile(journal)
			must(t, err)
			if strings.Count(string(did), "greeted\n") != 1 {
				t.Errorf("the server did:\n%s", did)
			}
		})
	}
}

// A reload applies changes of the server files and of the configuration. It adds a new server, applies new settings to an existing one, and
// removes one that is gone. An invalid file changes nothing.
func TestMCPReload(t *testing.T) {
	s := newSite(t, "rules: []\n")
	file := filepath.Join(filepath.Dir(s.rules), "mcp.json")
	config := filepath.Join(filepath.Dir(s.rules), "toold.yaml")
	must(t, os.WriteFile(config, []byte("mcp:\n  files: []\n"), 0o600))
	p := s.start("--config", config)
	if p.hasTool("greeter__echo") {
		t.Fatal("there is a server")
	}
	reload := func(want string) {
		t.Helper()
		got, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
		must(t, err)
		if changed := strings.Join(got.GetChanged(), " "); changed != want || len(got.GetNeedsRestart()) > 0 {
			t.Errorf("changed is %q, and %v needs a restart", changed, got.GetNeedsRestart())
		}
	}
	s.withServer("good")
	reload("mcp")
	eventually(t, "the tools are there", func() bool { return p.hasTool("greeter__writer") })
	reload("")
	tier := func() string {
		got, err := tooldv1.NewToolServiceClient(p.conn).GetTool(within(t), &tooldv1.GetToolRequest{Tool: "greeter__writer"})
		must(t, err)
		return got.GetTool().GetEffects().GetTier().String()
	}
	if got := tier(); got != "TIER_CONFIRM" {
		t.Errorf("the tier is %s", got)
	}
	must(t, os.WriteFile(config, []byte("mcp:\n  files: ["+file+"]\n  servers: [{name: greeter, trust: full}]\n"), 0o600))
	reload("mcp")
	if got := tier(); got != "TIER_OBSERVE" {
		t.Errorf("the tier is %s", got)
	}
	whole, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, []byte(`{"mcpServers":{"greeter":{"url":"ftp://x"}}}`), 0o600))
	if _, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{}); err == nil || !strings.Contains(err.Error(), "http or https") {
		t.Errorf("a wrong file: %v", err)
	}
	if !p.hasTool("greeter__writer") {
		t.Error("a wrong file took a server away")
	}
	must(t, os.WriteFile(file, whole, 0o600))
	must(t, os.WriteFile(config, []byte("mcp:\n  files: []\n"), 0o600))
	reload("mcp")
	if p.hasTool("greeter__writer") {
		t.Error("a server that is gone has tools")
	}
}

// TestMCPSignIn checks a server that lists its tools only after a sign-in. Until then it has the tool sign_in. A call of this tool is
// suspended, and its question contains the sign-in page. The daemon is killed, and the test sends the final address of the browser to the
// next daemon. The call then continues. The token is only in a file that only the daemon's user can read, and not in the journal or the
// log.
func TestMCPSignIn(t *testing.T) {
	issuer, end := mcptest.NewIssuer("good", false)
	t.Cleanup(end)
	s := newSite(t, "rules: []\n")
	dir := filepath.Dir(s.rules)
	config := filepath.Join(dir, "toold.yaml")
	must(t, os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(`{"mcpServers":{"w":{"url":"`+issuer.URL+`/mcp"}}}`), 0o600))
	must(t, os.WriteFile(config, []byte("mcp:\n  files: ["+filepath.Join(dir, "mcp.json")+"]\n  servers: [{name: w, trust: full}]\n"), 0o600))
	p := s.start("--config", config)
	eventually(t, "somebody can sign in", func() bool { return p.hasTool("w__sign_in") })
	got, err := p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "w__sign_in", CallId: "mcp-tests-sign-in-1"}})
	must(t, err)
	asked := got.GetCall().GetSuspension()
	var shown struct{ URL string }
	must(t, json.Unmarshal([]byte(asked.GetParameters()), &shown))
	if asked.GetAction() != "auth" {
		t.Fatalf("the call is %v", got.GetCall())
	}
	address, err := issuer.Visit(shown.URL)
	must(t, err)
	p.kill()
	p = s.start("--config", config)
	answer, err := json.Marshal(map[string]string{"address": address})
	must(t, err)
	eventually(t, "the tool is there", func() bool { return p.hasTool("w__sign_in") })
	stream, err := p.calls.ResumeTool(within(t), &tooldv1.ResumeToolRequest{SuspensionId: asked.GetSuspensionId(), Decision: &tooldv1.Decision{
		DecisionId: "decision-sign-in-01", Action: tooldv1.DecisionAction_DECISION_ACTION_RESUME, Result: string(answer), ExpectedDigest: asked.GetDigest(),
	}})
	follow(t, stream, err).last(t)
	done, err := p.calls.GetCall(within(t), &tooldv1.GetCallRequest{CallId: "mcp-tests-sign-in-1"})
	must(t, err)
	if text := done.GetCall().GetResult().GetMessage(); !strings.HasPrefix(text, "Signed in") {
		t.Fatalf("the call ended with %v", done.GetCall())
	}
	eventually(t, "its tools are there", func() bool { return p.hasTool("w__writer") })
	got, err = p.calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "w__writer", CallId: "mcp-tests-sign-in-2"}})
	must(t, err)
	if text := got.GetCall().GetResult().GetMessage(); text != "written" {
		t.Errorf("the call is %v", got.GetCall())
	}
	kept := 0
	must(t, filepath.WalkDir(s.data, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if !strings.Contains(string(text), "Access-0123456789abcdef") {
			return err
		}
		kept++
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 || filepath.Base(filepath.Dir(path)) != "mcp" {
			t.Errorf("a token is in %s, %v", path, info.Mode())
		}
		return err
	}))
	if kept != 1 || strings.Contains(p.log.String(), "Access-0123456789abcdef") {
		t.Errorf("the token is in %d files, or in the log", kept)
	}
}

// TestRefusedRegistryIsNamed checks a server that fetches its program from a host. If the profile does not allow the host, the error names
// it. With a profile that allows the host, the server runs.
func TestRefusedRegistryIsNamed(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer registry.Close()
	_, port, err := net.SplitHostPort(registry.Listener.Addr().String())
	must(t, err)
	s := newSite(t, "")
	dir := filepath.Dir(s.rules)
	exe, err := os.Executable()
	must(t, err)
	file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"w": map[string]any{
		"command": "sh", "args": []string{"-c", `curl -sS --fail --noproxy '' "$0" && exec "$1"`, registry.URL, exe}, "env": map[string]string{mcptest.Mode: "good"},
	}}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "mcp.json"), file, 0o600))
	config := filepath.Join(dir, "toold.yaml")
	with := func(profile string) {
		must(t, os.WriteFile(config, []byte(`
mcp:
  files: [`+filepath.Join(dir, "mcp.json")+`]
  servers: [{name: w, profile: `+profile+`}]
sandbox:
  profiles:
    - {name: public, network: proxy, ports: [`+port+`], read: [`+exe+`]}
    - {name: private, network: proxy, ports: [`+port+`], read: [`+exe+`], hosts: [127.0.0.1], addresses: [127.0.0.1]}
`), 0o600))
	}
	with("public")
	p := s.start("--config", config)
	source := func() *tooldv1.Source {
		list, err := p.admin.ListSources(within(t), &tooldv1.ListSourcesRequest{})
		must(t, err)
		return list.GetSources()[1]
	}
	eventually(t, "the refused place is named", func() bool {
		return strings.Contains(source().GetError(), "its sandbox blocked the network: 127.0.0.1:"+port+" (the address 127.0.0.1 is not in the list of permitted hosts")
	})
	if s := source(); !strings.Contains(s.GetError(), "mcp.servers") {
		t.Errorf("the source is %v", s)
	}
	with("private")
	_, err = p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	eventually(t, "the server runs", func() bool { return p.hasTool("w__echo") })
	if s := source(); s.GetError() != "" {
		t.Errorf("the source is %v", s)
	}
}
