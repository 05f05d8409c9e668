package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// snippet returns the command that the page about MCP clients shows for Claude Desktop.
func snippet(t *testing.T) (args []string) {
	t.Helper()
	page, err := os.ReadFile("../docs/how-to/use-from-mcp-clients.md")
	must(t, err)
	_, text, _ := strings.Cut(string(page), "```json\n")
	text, _, ok := strings.Cut(text, "```")
	var config struct {
		Servers map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil || !ok {
		t.Fatalf("the page has no snippet: %v\n%s", err, text)
	}
	is := config.Servers["toold"]
	return append([]string{is.Command}, is.Args...)
}

// TestClaudeDesktop runs the command of the snippet, and calls a tool through it. The test replaces the path of the program and of the data
// directory, as a reader does.
func TestClaudeDesktop(t *testing.T) {
	s := newSite(t, "rules: [{name: all, action: allow, tools: [\"*\"]}]\n")
	s.start()
	must(t, os.WriteFile(filepath.Join(s.workspace, "hello.txt"), []byte("hello\n"), 0o600))
	args := snippet(t)
	if len(args) != 4 || args[2] != "--data" {
		t.Fatalf("the command is %q", args)
	}
	exe, err := os.Executable()
	must(t, err)
	args[0], args[3] = exe, s.data
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), asDaemon+"=1"), os.Stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &mcp.CommandTransport{Command: cmd}, nil)
	must(t, err)
	if r := callMCP(t, c, "read"); r.IsError || !strings.Contains(mcpText(r), "hello") {
		t.Errorf("read returned %q", mcpText(r))
	}
	must(t, c.Close())
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the command ended with the exit code %d", code)
	}
}

// TestMCPWithoutDaemon checks that the command says so when no daemon answers.
func TestMCPWithoutDaemon(t *testing.T) {
	s := newSite(t, "")
	cmd := s.command()
	cmd.Args = append(cmd.Args[:1], "mcp", "--data", s.data, "--address", filepath.Join(s.data, "none"))
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 4 || !strings.Contains(string(out), "no daemon answers") {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

// TestMCPEndpoint checks /mcp with the setting mcp.approvals, which a reload changes: the approval of the own call is offered only with it.
func TestMCPEndpoint(t *testing.T) {
	s := newSite(t, "rules: [{name: ask, action: ask, tools: [read]}]\n")
	must(t, os.WriteFile(filepath.Join(s.workspace, "hello.txt"), []byte("hello\n"), 0o600))
	config := filepath.Join(filepath.Dir(s.rules), "toold.yaml")
	must(t, os.WriteFile(config, nil, 0o600))
	p := s.start("--config", config, "--listen-http", "127.0.0.1:0")
	request, err := http.NewRequestWithContext(within(t), http.MethodPost, p.ready.HTTP+"/mcp", strings.NewReader("{}"))
	must(t, err)
	refused, err := http.DefaultClient.Do(request)
	must(t, err)
	refused.Body.Close()
	if refused.StatusCode != http.StatusUnauthorized || refused.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without a token, the status is %d with WWW-Authenticate %q", refused.StatusCode, refused.Header.Get("WWW-Authenticate"))
	}
	c := p.mcp(t)
	if r := callMCP(t, c, "read"); !strings.Contains(mcpText(r), "waits for the approval") {
		t.Errorf("by default, the result is %q", mcpText(r))
	}
	must(t, os.WriteFile(config, []byte("mcp: {approvals: true}\n"), 0o600))
	got, err := p.admin.Reload(within(t), &tooldv1.ReloadRequest{})
	must(t, err)
	if len(got.GetChanged()) != 1 || got.GetChanged()[0] != "mcp" {
		t.Errorf("the reload changed %v", got.GetChanged())
	}
	if r := callMCP(t, c, "read"); !strings.Contains(mcpText(r), "hello") {
		t.Errorf("with mcp.approvals, the result is %q", mcpText(r))
	}
}

// mcp returns an MCP client over HTTP, whose user agrees to everything.
func (p *proc) mcp(t *testing.T) *mcp.ClientSession {
	t.Helper()
	token, err := os.ReadFile(p.ready.TokenFile)
	must(t, err)
	agree := func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept"}, nil
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: agree}).Connect(within(t), &mcp.StreamableClientTransport{
		Endpoint: p.ready.HTTP + "/mcp", HTTPClient: &http.Client{Transport: withToken(strings.TrimSpace(string(token)))},
	}, nil)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// withToken sends a token with each request.
type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

func callMCP(t *testing.T, c *mcp.ClientSession, name string) *mcp.CallToolResult {
	t.Helper()
	r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"path": "hello.txt"}})
	must(t, err)
	return r
}

func mcpText(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	text, _ := r.Content[0].(*mcp.TextContent)
	if text == nil {
		return ""
	}
	return text.Text
}
