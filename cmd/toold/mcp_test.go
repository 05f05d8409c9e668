package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
	"github.com/toold-dev/toold/tools/mcp/mcptest"
)

// withServer writes a configuration with a server of mcptest and returns the flags for it.
func (s *site) withServer(mode string) (flags []string, journal string) {
	s.t.Helper()
	dir := filepath.Dir(s.rules)
	exe, err := os.Executable()
	must(s.t, err)
	journal = filepath.Join(s.workspace, "journal") // where an isolated server may write
	file, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"greeter": map[string]any{
		"command": exe, "env": map[string]string{mcptest.Mode: mode, mcptest.Journal: journal},
	}}})
	must(s.t, err)
	must(s.t, os.WriteFile(filepath.Join(dir, "mcp.json"), file, 0o600))
	config := filepath.Join(dir, "toold.yaml")
	must(s.t, os.WriteFile(config, []byte("mcp:\n  files: ["+filepath.Join(dir, "mcp.json")+"]\n"), 0o600))
	return []string{"--config", config}, journal
}

// hasTool reports whether a tool is in the list.
func (p *proc) hasTool(id string) bool {
	_, err := tooldv1.NewToolServiceClient(p.conn).GetTool(within(p.t), &tooldv1.GetToolRequest{Tool: id})
	return err == nil
}

// A tool of a server passes the gates, its question suspends the call, the answer counts although the daemon and with it the
// server were ended meanwhile, and a stateless server goes on where it was.
func TestMCP(t *testing.T) {
	for _, mode := range []string{"good", "earlier"} {
		t.Run(mode, func(t *testing.T) {
			s := newSite(t, "rules:\n  - {action: allow, tools: [greeter__ask]}\n")
			flags, journal := s.withServer(mode)
			p := s.start(flags...)
			eventually(t, "the tools are there", func() bool { return p.hasTool("greeter__ask") })
			sources, err := p.admin.ListSources(within(t), &tooldv1.ListSourcesRequest{})
			must(t, err)
			if s := sources.GetSources(); len(s) != 2 || s[0].GetName() != "builtin" || s[1].GetName() != "mcp:greeter" || s[1].GetTools() != 12 || s[1].GetServer() != "mcptest 1" {
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
			if asked.GetAction() != "input" || !strings.Contains(asked.GetMessage(), "The server greeter asks: What is your name?Type your password. [markup was taken out]") {
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
				t.Errorf("a server that nothing is said of runs with %v", isolation)
			}
			did, err := os.ReadFile(journal)
			must(t, err)
			if strings.Count(string(did), "greeted\n") != 1 {
				t.Errorf("the server did:\n%s", did)
			}
		})
	}
}
