package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// TestMCPWithoutDaemon checks the error of the command when no daemon answers.
func TestMCPWithoutDaemon(t *testing.T) {
	s := newSite(t, "")
	cmd := s.command()
	cmd.Args = append(cmd.Args[:1], "mcp", "--data", s.data, "--address", filepath.Join(s.data, "none"))
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 4 || !strings.Contains(string(out), "no daemon answers") {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}
}

// TestMCPEndpoint checks that /mcp offers a user the approval of their own call only with the setting mcp.approvals, which a reload
// changes.
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

// TestT57MCP (T57) sends each request about tools with each role and without a token. A role that may not list tools gets no access. The
// other roles get the same answers as over gRPC, and none of them sees the task of another principal.
func TestT57MCP(t *testing.T) {
	s := newSite(t, "rules: [{name: all, action: allow, tools: [\"*\"]}]\n")
	config, roles := "auth:\n  tokens:\n", []string{"caller", "delegate", "approver", "viewer", "operator", "worker", "admin"}
	token := func(role string) string { return role + "-0123456789abcdefghijklmnop" }
	for _, role := range append([]string{"owner"}, roles...) {
		config += fmt.Sprintf("    - {name: only-%s, roles: [%s], hash: 'sha256:%x'}\n", role, strings.Replace(role, "owner", "caller", 1), sha256.Sum256([]byte(token(role))))
	}
	file := s.rules + ".config"
	must(t, os.WriteFile(file, []byte(config), 0o600))
	p := s.start("--config", file, "--listen-http", "127.0.0.1:0")
	const id = "the-call-of-the-owner"
	body := fmt.Sprintf(`"name":"grep","arguments":{"pattern":"x"},"_meta":{"toold/callId":%q}`, id)
	if got := p.post(t, token("owner"), "tools/call", "grep", body); got != "200" {
		t.Fatalf("the call of the owner returned %s", got)
	}
	for _, role := range append(roles, "") {
		list, call, task := "200", "200 PERMISSION_DENIED", "400 -32602"
		switch role {
		case "":
			list, call, task = "401", "401", "401"
		case "worker", "admin":
			list, call, task = "403", "403", "403"
		case "caller", "delegate":
			call = "200"
		}
		name := token(role)
		if role == "" {
			name = ""
		}
		for _, tt := range []struct{ method, name, params, want string }{
			{"tools/list", "", ``, list},
			{"tools/call", "grep", `"name":"grep","arguments":{"pattern":"x"}`, call},
			{"tools/call", "toold_wait", fmt.Sprintf(`"name":"toold_wait","arguments":{"call_id":%q}`, id), task},
			{"tasks/get", id, fmt.Sprintf(`"taskId":%q`, id), task},
			{"tasks/update", id, fmt.Sprintf(`"taskId":%q,"inputResponses":{}`, id), task},
			{"tasks/cancel", id, fmt.Sprintf(`"taskId":%q`, id), task},
		} {
			if got := p.post(t, name, tt.method, tt.name, tt.params); got != tt.want {
				t.Errorf("%s %s as %q returned %s, want %s", tt.method, tt.name, role, got, tt.want)
			}
		}
	}
}

// post sends a request to /mcp; see [proc.sendMCP]. It returns the HTTP status and, for a refusal, the JSON-RPC code or the code of the API.
func (p *proc) post(t *testing.T, token, method, name, params string) string {
	t.Helper()
	code, text := p.sendMCP(t, token, method, name, params)
	out := strconv.Itoa(code)
	_, after, isError := strings.Cut(text, `"error":`)
	var e struct {
		Code int `json:"code"`
		Data struct {
			Code string `json:"code"`
		} `json:"data"`
	}
	if isError {
		must(t, json.NewDecoder(strings.NewReader(after)).Decode(&e))
		out += " " + cmp.Or(e.Data.Code, strconv.Itoa(e.Code))
	}
	return out
}

// sendMCP sends a request of a client with the tasks extension to /mcp, and returns the HTTP status and the body. params contains JSON members;
// sendMCP adds the members that all requests have.
func (p *proc) sendMCP(t *testing.T, token, method, name, params string) (code int, text string) {
	t.Helper()
	var with map[string]any
	must(t, json.Unmarshal([]byte("{"+params+"}"), &with))
	meta, _ := with["_meta"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28"
	meta["io.modelcontextprotocol/clientInfo"] = map[string]string{"name": "test", "version": "1"}
	meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}
	with["_meta"] = meta
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": with})
	must(t, err)
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, p.ready.HTTP+"/mcp", bytes.NewReader(body))
	must(t, err)
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		r.Header.Set(key, value)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := http.DefaultClient.Do(r)
	must(t, err)
	defer got.Body.Close()
	all, err := io.ReadAll(got.Body)
	must(t, err)
	return got.StatusCode, string(all)
}

// TestMCPRevoked revokes the token of a running "toold mcp": the command ends, and says why.
func TestMCPRevoked(t *testing.T) {
	s := newSite(t, "")
	p := s.start()
	made, err := p.admin.CreateToken(within(t), &tooldv1.CreateTokenRequest{Name: "desktop", Roles: []tooldv1.Role{tooldv1.Role_ROLE_CALLER}})
	must(t, err)
	file := s.rules + ".token"
	must(t, os.WriteFile(file, []byte(made.GetText()), 0o600))
	cmd := s.command()
	cmd.Args = append(cmd.Args[:1], "mcp", "--address", p.ready.TCP, "--token-file", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &mcp.CommandTransport{Command: cmd}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	must(t, err)
	_, err = c.ListTools(within(t), nil)
	must(t, err)
	_, err = p.admin.RevokeToken(within(t), &tooldv1.RevokeTokenRequest{TokenId: made.GetToken().GetTokenId()})
	must(t, err)
	_ = c.Wait() // The connection has failed, and its error does not matter here.
	_ = c.Close()
	if code := cmd.ProcessState.ExitCode(); code == 0 || !strings.Contains(stderr.String(), "revoked") {
		t.Errorf("the command ended with the exit code %d: %s", code, stderr.String())
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
