package daemon

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// create creates a token, and returns its text and its id.
func (p *proc) create(req *tooldv1.CreateTokenRequest) (text, id string) {
	p.t.Helper()
	made, err := p.admin.CreateToken(within(p.t), req)
	must(p.t, err)
	return made.GetText(), made.GetToken().GetTokenId()
}

// forwarded returns the headers with which proxies and clusters forward a principal. All of them name an admin.
func forwarded() map[string]string {
	return map[string]string{
		"toold-principal": `{"namespace":"default","subject":"local","roles":["admin"]}`, "toold-principal-bin": "CgVsb2NhbA", "toold-subject": "local",
		"toold-namespace": "default", "toold-roles": "admin", "toold-owner": "node-1", "toold-identity": "local", "toold-credential": "local", "toold-uid": "0",
		"x-toold-principal": "local", "x-forwarded-user": "local", "x-forwarded-email": "local", "x-forwarded-groups": "admin", "x-remote-user": "local",
		"x-auth-request-user": "local", "x-forwarded-client-cert": "By=toold;URI=spiffe://prod.example/local", "x-client-cert": "CN=local", "x-spiffe-id": "spiffe://prod.example/local",
		"x-forwarded-for": "127.0.0.1", "forwarded": "for=127.0.0.1", "x-forwarded-proto": "https", "proxy-authorization": "Bearer local", "x-mcp-principal": "local",
	}
}

// A withHeaders sends headers with each request.
type withHeaders map[string]string

func (h withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestT132ForwardedPrincipal (T132) sends metadata that names a principal to each endpoint. The metadata must not give an identity to a
// client without a credential, and must not change the identity of a client with a token.
func TestT132ForwardedPrincipal(t *testing.T) {
	p := newSite(t, "").start("--listen-http", "127.0.0.1:0")
	defer http.DefaultClient.CloseIdleConnections()
	b := browserOf(t, p)
	token, _ := p.create(&tooldv1.CreateTokenRequest{Name: "vera", Subject: "vera", Roles: []tooldv1.Role{tooldv1.Role_ROLE_CALLER}})
	headers := forwarded()
	ctx := metadata.NewOutgoingContext(within(t), metadata.New(headers))

	_, err := p.dial(t, insecure.NewCredentials(), "").WhoAmI(ctx, &tooldv1.WhoAmIRequest{})
	wantReason(t, "gRPC without a token", err, codes.Unauthenticated, "TOKEN_REQUIRED")
	is, err := tooldv1.NewCallServiceClient(p.with(token)).WhoAmI(ctx, &tooldv1.WhoAmIRequest{})
	must(t, err)
	if is.GetPrincipal().GetSubject() != "vera" {
		t.Errorf("gRPC: the principal is %v", is.GetPrincipal())
	}
	_, err = tooldv1.NewAdminServiceClient(p.with(token)).Reload(ctx, &tooldv1.ReloadRequest{})
	wantReason(t, "gRPC", err, codes.PermissionDenied, "ROLE_REQUIRED")

	client := &http.Client{Transport: withHeaders(headers)}
	send := func(method, path, token string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(within(t), method, b.base+path, strings.NewReader("{}"))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.Do(req)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.Status + " " + string(text)
	}
	for _, tt := range []struct{ method, path, token, want string }{
		{"POST", tooldv1.CallService_WhoAmI_FullMethodName, "", "TOKEN_REQUIRED"},
		{"POST", tooldv1.CallService_WhoAmI_FullMethodName, token, `"vera"`},
		{"POST", tooldv1.AdminService_Reload_FullMethodName, token, "ROLE_REQUIRED"},
		{"GET", "/v1/watch?inbox=1", "", "TOKEN_REQUIRED"},
		{"GET", "/metrics", "", "TOKEN_REQUIRED"},
		{"GET", "/metrics", token, "ROLE_REQUIRED"},
		{"POST", "/v1/ui/decisions", "", "TOKEN_REQUIRED"},
		{"GET", "/v1/calls/x/artifacts/y", "", "TOKEN_REQUIRED"},
		{"POST", "/mcp", "", "401 "},
		{"GET", "/mcp", "", "401 "},
	} {
		if got := send(tt.method, tt.path, tt.token); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s with the token %t: %s, want %s", tt.method, tt.path, tt.token != "", got, tt.want)
		}
	}

	headers = maps.Clone(headers)
	headers["authorization"] = "Bearer " + token
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &mcp.StreamableClientTransport{Endpoint: b.base + "/mcp", HTTPClient: &http.Client{Transport: withHeaders(headers)}}, nil)
	must(t, err)
	defer c.Close()
	_, err = c.CallTool(within(t), &mcp.CallToolParams{Name: "grep", Arguments: map[string]any{"pattern": "nothing"}, Meta: mcp.Meta{"toold-principal": "local", "toold/principal": "local"}})
	must(t, err)
	list, err := p.calls.ListCalls(within(t), &tooldv1.ListCallsRequest{})
	must(t, err)
	if len(list.GetCalls()) != 1 || list.GetCalls()[0].GetCaller().GetSubject() != "vera" {
		t.Errorf("/mcp: the calls are %v", list.GetCalls())
	}
}

// TestT137RevokedDuringStreamOverHTTP (T137) checks that each kind of stream over HTTP ends when its token is revoked.
func TestT137RevokedDuringStreamOverHTTP(t *testing.T) {
	p := newSite(t, "rules: [{action: ask, tools: [write]}]").start("--listen-http", "127.0.0.1:0")
	defer http.DefaultClient.CloseIdleConnections()
	b := browserOf(t, p)
	token, id := p.create(&tooldv1.CreateTokenRequest{Name: "ci", Roles: []tooldv1.Role{tooldv1.Role_ROLE_CALLER, tooldv1.Role_ROLE_VIEWER}})
	b.token = token
	b.call(`{"tool":"write","run":{"threadId":"th"},"arguments":{"path":"a","content":"b"}}`) // the call waits for an approval
	bodies := map[string]io.Reader{}
	open := func(method, path, body string, header ...string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(within(t), method, b.base+path, strings.NewReader(body))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	for _, path := range []string{"/v1/watch?thread=th", "/v1/watch?inbox=1"} {
		resp := open("GET", path, "")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
		bodies[path] = resp.Body
	}
	session := open("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
		"Accept", "application/json, text/event-stream").Header.Get("Mcp-Session-Id")
	of := []string{"Accept", "application/json, text/event-stream", "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-06-18"}
	open("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, of...)
	bodies["/mcp"] = open("GET", "/mcp", "", of...).Body

	ends := map[string]func() error{}
	for name, option := range map[string]connect.ClientOption{"connect": connect.WithProtoJSON(), "grpc-web": connect.WithGRPCWeb()} {
		client := connect.NewClient[tooldv1.WatchCallsRequest, tooldv1.WatchCallsResponse](http.DefaultClient, b.base+tooldv1.CallService_WatchCalls_FullMethodName, option)
		req := connect.NewRequest(&tooldv1.WatchCallsRequest{Selector: &tooldv1.WatchCallsRequest_Namespace{Namespace: true}, Follow: true})
		req.Header().Set("Authorization", "Bearer "+token)
		s, err := client.CallServerStream(context.WithoutCancel(within(t)), req)
		must(t, err)
		defer s.Close()
		if !s.Receive() {
			t.Fatalf("%s: %v", name, s.Err())
		}
		ends[name] = func() error {
			for s.Receive() {
			}
			return s.Err()
		}
	}

	_, err := p.admin.RevokeToken(within(t), &tooldv1.RevokeTokenRequest{TokenId: id})
	must(t, err)
	for name, end := range ends {
		if err := end(); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	for path, body := range bodies {
		text, err := io.ReadAll(body)
		if err != nil || path != "/mcp" && !strings.Contains(string(text), "TOKEN_REVOKED") { // an MCP stream cannot end with an error
			t.Errorf("%s ended with %v: %s", path, err, text)
		}
	}
}

// TestT137ReadOnlyOverEachEndpoint (T137) checks that a read-only token with many roles reads over each endpoint and changes nothing.
func TestT137ReadOnlyOverEachEndpoint(t *testing.T) {
	p := newSite(t, "").start("--listen-http", "127.0.0.1:0")
	defer http.DefaultClient.CloseIdleConnections()
	b := browserOf(t, p)
	token, _ := p.create(&tooldv1.CreateTokenRequest{Name: "dashboard", ReadOnly: true, Roles: []tooldv1.Role{
		tooldv1.Role_ROLE_CALLER, tooldv1.Role_ROLE_APPROVER, tooldv1.Role_ROLE_OPERATOR, tooldv1.Role_ROLE_VIEWER, tooldv1.Role_ROLE_ADMIN,
	}})
	calls := tooldv1.NewCallServiceClient(p.with(token))
	_, err := calls.ListCalls(within(t), &tooldv1.ListCallsRequest{})
	must(t, err)
	_, err = calls.CallTool(within(t), &tooldv1.CallToolRequest{Spec: &tooldv1.CallSpec{Tool: "grep"}})
	wantReason(t, "gRPC", err, codes.PermissionDenied, "READ_ONLY")
	for _, tt := range []struct{ method, path, want string }{
		{"POST", tooldv1.CallService_ListCalls_FullMethodName, "{"},
		{"GET", "/metrics", "toold_"},
		{"POST", tooldv1.CallService_CallTool_FullMethodName, "READ_ONLY"},
		{"POST", tooldv1.CallService_ClaimSuspension_FullMethodName, "READ_ONLY"},
		{"POST", tooldv1.AdminService_Reload_FullMethodName, "READ_ONLY"},
		{"POST", "/v1/ui/decisions", "READ_ONLY"},
		{"POST", "/v1/agui/decisions", "READ_ONLY"},
	} {
		if _, got := b.do(tt.method, tt.path, token, "{}"); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.method, tt.path, got, tt.want)
		}
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &mcp.StreamableClientTransport{
		Endpoint: b.base + "/mcp", HTTPClient: &http.Client{Transport: withToken(token)},
	}, nil)
	must(t, err)
	defer c.Close()
	if list, err := c.ListTools(within(t), nil); err != nil || len(list.Tools) == 0 {
		t.Errorf("/mcp: the tools are %v, %v", list, err)
	}
	r, err := c.CallTool(within(t), &mcp.CallToolParams{Name: "grep", Arguments: map[string]any{"pattern": "nothing"}})
	if err == nil && !r.IsError {
		t.Errorf("/mcp: the call returned %v", r)
	}
	list, err := p.calls.ListCalls(within(t), &tooldv1.ListCallsRequest{})
	must(t, err)
	if len(list.GetCalls()) != 0 {
		t.Errorf("there are calls: %v", list.GetCalls())
	}
}
